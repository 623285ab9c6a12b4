import * as z from "zod";
import { identifier } from "../http/fields.ts";

export const userId = identifier().describe("The end-user, by your own id.");
export const balanceId = identifier().describe("Identifier of a balance, prefix `crb_`.");

export const ledgerReason = z.enum([
  "event_committed",
  "reservation_held",
  "reservation_released",
  "reservation_expired",
  "grant",
  "admin_adjust",
]);

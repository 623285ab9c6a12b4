import * as z from "zod";
import { identifier } from "../../http/fields.ts";

export const userId = identifier().describe("Your own id of the user.");
export const balanceId = identifier().describe("The id of a balance, `crb_…`.");

export const ledgerReason = z
  .enum(["event_committed", "reservation_held", "reservation_released", "reservation_expired", "grant", "admin_adjust"])
  .meta({ id: "LedgerReason" });

/** Why credits are granted. */
export const grantSource = z.enum(["purchase", "grant", "refund", "manual"]).meta({ id: "GrantSource" });

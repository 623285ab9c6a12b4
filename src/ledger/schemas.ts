import * as z from "zod/mini";
import { described } from "../http/described.ts";
import { identifier } from "../http/fields.ts";

export const userId = described(identifier(), "Your own id of the user.");
export const balanceId = described(identifier(), "The id of a balance, `crb_…`.");

export const ledgerReason = described(
  z.enum([
    "event_committed",
    "reservation_held",
    "reservation_released",
    "reservation_expired",
    "grant",
    "admin_adjust",
  ]),
  { id: "LedgerReason" },
);

/** Why credits are granted. */
export const grantSource = described(z.enum(["purchase", "grant", "refund", "manual"]), { id: "GrantSource" });

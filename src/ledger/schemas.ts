import * as z from "zod/mini";
import { about, described } from "#described";
import { identifier } from "../http/fields.ts";

export const userId = described(identifier(), about("Your own id of the user."));
export const balanceId = described(identifier(), about("The id of a balance, `crb_…`."));

export const ledgerReason = described(
  z.enum([
    "event_committed",
    "reservation_held",
    "reservation_released",
    "reservation_expired",
    "grant",
    "admin_adjust",
  ]),
  about({ id: "LedgerReason" }),
);

/** Why credits are granted. */
export const grantSource = described(z.enum(["purchase", "grant", "refund", "manual"]), about({ id: "GrantSource" }));

import * as z from "zod";
import { identifier } from "../../http/fields.ts";

export const userId = z.lazy(() => identifier()).describe("Your own id of the user.");
export const balanceId = z.lazy(() => identifier()).describe("The id of a balance, `crb_…`.");

export const ledgerReason = z.lazy(() =>
  z
    .enum([
      "event_committed",
      "reservation_held",
      "reservation_released",
      "reservation_expired",
      "grant",
      "admin_adjust",
    ])
    .meta({ id: "LedgerReason" }),
);

/** Why credits are granted. */
export const grantSource = z.lazy(() => z.enum(["purchase", "grant", "refund", "manual"]).meta({ id: "GrantSource" }));

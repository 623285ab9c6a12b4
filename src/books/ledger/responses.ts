import * as z from "zod";
import { creditLedger } from "../../db/schema.ts";
import { time } from "../../http/responses.ts";
import { matchRule, unit } from "../amounts/schemas.ts";
import { ledgerReason } from "./schemas.ts";

export const balance = z
  .strictObject({
    balanceId: z.string(),
    packId: z.string(),
    packName: z.string(),
    packItemId: z.string().nullable(),
    kind: z.enum(["per_type", "generic"]).meta({ id: "BalanceKind" }),
    unit,
    remaining: z.number(),
    initial: z.number(),
    grantedAt: time,
    expiresAt: time.nullable(),
    status: z.enum(["active", "expired", "depleted", "revoked"]).meta({ id: "BalanceStatus" }),
    matches: z.array(matchRule),
    priority: z.number(),
  })
  .meta({ id: "CreditBalance" });

export const ledgerEntry = z
  .strictObject({
    id: z.string(),
    balanceId: z.string(),
    packId: z.string(),
    delta: z.number(),
    unit,
    reason: ledgerReason,
    cause: z
      .enum(creditLedger.cause.enumValues)
      .meta({ id: "LedgerCause" })
      .describe("Why it was written, when `reason` is `admin_adjust`."),
    eventId: z.string().nullable(),
    reservationId: z.string().nullable(),
    occurredAt: time,
    note: z.string().nullable(),
    by: z.string().describe("Whose call wrote it: `key_…`, `admin` or `stripe`. `cron` when there was no call."),
  })
  .meta({ id: "LedgerEntry" });

import * as z from "zod";
import { quantitiesOutput } from "../../books/amounts/amount-fields.ts";
import { time } from "../../http/output-fields.ts";

export const erasureId = "era_5tQw8nR2sVj7mXb4cKd1Lp";

export const counts = {
  erased: { analytics: 512, consent: 3, ids: 2, properties: 1, messages: 12, customers: 1, refusals: 0 },
  pseudonymised: {
    balances: 2,
    ledger: 41,
    metering: 38,
    reservations: 4,
    recurring: 1,
    adjustments: 0,
    refunds: 1,
    exports: 2,
  },
  revoked: { tokens: 1250 },
};

export const erasureParams = z.lazy(() => z.object({ erasureId: z.string().describe("The erasure's id.") }));

export const erasure = {
  erasureId,
  status: "completed",
  distinctIdCount: 2,
  ...counts,
  reason: "request",
  keepConsent: false,
  by: "key_9aXw2bYc3dZe4fAg5hBi6j",
  fingerprint: "pP3xWc1Jm0aQ",
  startedAt: "2026-01-16T08:30:00.000Z",
  completedAt: "2026-01-16T08:30:00.215Z",
  recoverableUntil: "2026-02-15T08:30:00.215Z",
  liftedAt: null,
};

const rows = z.int();

export const countsOutput = {
  erased: z.lazy(() =>
    z.lazy(() =>
      z.lazy(() =>
        z
          .strictObject({
            analytics: rows.describe("Analytics events."),
            consent: rows.optional().describe("Entries of the consent log. Absent when they are kept."),
            ids: rows.describe("Records of ids, with the claims on them."),
            properties: rows.describe("Ids with properties."),
            messages: rows.describe("Messages to endpoints, even if they were not delivered."),
            customers: rows.describe("Customers of Stripe."),
            refusals: rows.describe("Recently refused usage and grants, for the overview."),
          })
          .meta({ id: "ErasedRows" })
          .describe("Deleted rows."),
      ),
    ),
  ),
  pseudonymised: z.lazy(() =>
    z.lazy(() =>
      z.lazy(() =>
        z
          .strictObject({
            balances: rows,
            ledger: rows.describe("Entries of the ledger."),
            metering: rows.describe("Usage events."),
            reservations: rows,
            recurring: rows,
            adjustments: rows.describe("Adjustments."),
            refunds: rows,
            exports: rows.describe("Rows of the audit of exports."),
          })
          .meta({ id: "PseudonymisedRows" })
          .describe("Rows that the books keep, without the values that identify the person."),
      ),
    ),
  ),
  revoked: quantitiesOutput.describe("Remaining credits, and credits that open reservations return."),
};

export const distinctIdCount = z.int();

export const erasureIdOutput = z.string();

export const status = z.lazy(() =>
  z
    .enum(["running", "completed"])
    .meta({ id: "ErasureStatus" })
    .describe("A large person is erased in steps, by the cron or by a repeated call."),
);

export const erasureOutput = z.lazy(() =>
  z
    .strictObject({
      erasureId: erasureIdOutput,
      status,
      distinctIdCount,
      ...countsOutput,
      reason: z.nullable(erasureReason),
      keepConsent: z.boolean(),
      by: z.string().describe("The id of the key that asked for it, or the administrator."),
      fingerprint: z.string().describe("Identifies the `ERASURE_SECRET` that hashed its ids, without revealing it."),
      startedAt: time,
      completedAt: time.nullable(),
      recoverableUntil: time
        .nullable()
        .describe(
          "Until this time D1 can restore the database as it was before the erasure: `D1_RECOVERY_DAYS` after the end, 30 by default, 7 on Cloudflare's free plan.",
        ),
      liftedAt: time.nullable().describe("When its ids were allowed again."),
    })
    .meta({ id: "Erasure" }),
);

export const erasureReason = z.lazy(() =>
  z
    .enum(["request", "consent_withdrawn", "objection", "not_needed", "unlawful", "legal_duty"])
    .meta({ id: "ErasureReason" }),
);

export const consentEntry = z.lazy(() =>
  z
    .strictObject({
      consentId: z.string(),
      distinctId: z.string(),
      purpose: z.string(),
      decision,
      method: z.string().nullable(),
      noticeVersion: z.string().nullable(),
      source: z.string().nullable(),
      gpc: z.boolean().nullable(),
      isDevice: z.boolean(),
      occurredAt: time,
      receivedAt: time,
    })
    .meta({ id: "ConsentEntry" }),
);

export const decision = z.lazy(() => z.enum(["granted", "denied", "withdrawn"]).meta({ id: "ConsentDecision" }));

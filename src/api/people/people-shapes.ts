import * as z from "zod";
import { quantitiesOutput } from "../../books/amounts/amount-fields.ts";
import { lazy } from "../../http/lazy.ts";
import { time } from "../../http/output-fields.ts";
import { words } from "../../lib/words.ts";

export const erasureId = "era_5tQw8nR2sVj7mXb4cKd1Lp";

export const counts = {
  erased: { analytics: 512, consent: 3, ids: 2, properties: 1, notes: 0, messages: 12, customers: 1, refusals: 0 },
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

export const erasureParams = lazy(() =>
  z.object({ erasureId: z.string().meta(words("The erasure's id.", "era_5tQw8nR2sVj7mXb4cKd1Lp")) }),
);

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

const rows = () => z.int();

const erasedRows = /* @__PURE__ */ lazy(() =>
  z
    .strictObject({
      analytics: rows().meta(words("Analytics events.", 512)),
      consent: rows().optional().meta(words("Entries of the consent log. Absent when they are kept.", 3)),
      ids: rows().meta(words("Records of ids, with the claims on them.", 2)),
      properties: rows().meta(words("Ids with properties.", 1)),
      notes: rows().meta(words("Notes of operators.", 0)),
      messages: rows().meta(words("Messages to endpoints, even if they were not delivered.", 12)),
      customers: rows().meta(words("Customers of Stripe.", 1)),
      refusals: rows().meta(words("Recently rejected usage and grants, for the overview.", 0)),
    })
    .meta({ id: "ErasedRows", ...words("Deleted rows.") }),
);

const pseudonymisedRows = /* @__PURE__ */ lazy(() =>
  z
    .strictObject({
      balances: rows().meta(words("The balances.", 2)),
      ledger: rows().meta(words("Entries of the ledger.", 41)),
      metering: rows().meta(words("Usage events.", 38)),
      reservations: rows().meta(words("Reservations.", 4)),
      recurring: rows().meta(words("Recurring grants.", 1)),
      adjustments: rows().meta(words("Adjustments.", 0)),
      refunds: rows().meta(words("Refunds.", 1)),
      exports: rows().meta(words("Rows of the audit of exports.", 2)),
    })
    .meta({
      id: "PseudonymisedRows",
      ...words("Rows that the books keep, without the values that identify the person."),
    }),
);

export const countsOutput = () => ({
  erased: erasedRows,
  pseudonymised: pseudonymisedRows,
  revoked: quantitiesOutput.meta(words("Remaining credits, and credits that open reservations return.")),
});

export const distinctIdCount = /* @__PURE__ */ lazy(() => z.int().meta(words("How many ids the person has.", 2)));

export const status = /* @__PURE__ */ lazy(() =>
  z.enum(["running", "completed"]).meta({
    id: "ErasureStatus",
    ...words("A large person is erased in steps, by the cron or by a repeated call.", "completed"),
  }),
);

export const erasureOutput = /* @__PURE__ */ lazy(() =>
  z
    .strictObject({
      erasureId: z.string().meta(words("The erasure's id.", "era_5tQw8nR2sVj7mXb4cKd1Lp")),
      status,
      distinctIdCount,
      ...countsOutput(),
      reason: z.nullable(erasureReason).meta(words("The reason.", "request")),
      keepConsent: z.boolean().meta(words("Whether the consent log was kept.", false)),
      by: z
        .string()
        .meta(words("The id of the key that asked for it, or the administrator.", "key_9aXw2bYc3dZe4fAg5hBi6j")),
      fingerprint: z
        .string()
        .meta(words("Identifies the `ERASURE_SECRET` that hashed its ids, without revealing it.", "pP3xWc1Jm0aQ")),
      startedAt: time.meta(words("When it started.", "2026-01-16T08:30:00.000Z")),
      completedAt: time.nullable().meta(words("When it was completed. Null until then.", "2026-01-16T08:30:00.215Z")),
      recoverableUntil: time
        .nullable()
        .meta(
          words(
            "Until this time D1 can restore the database as it was before the erasure: `D1_RECOVERY_DAYS` after the end, 30 by default, 7 on Cloudflare's free plan.",
            "2026-02-15T08:30:00.215Z",
          ),
        ),
      liftedAt: time.nullable().meta(words("When its ids were allowed again.", "2026-03-01T10:00:00.000Z")),
    })
    .meta({ id: "Erasure" }),
);

export const erasureReason = lazy(() =>
  z
    .enum(["request", "consent_withdrawn", "objection", "not_needed", "unlawful", "legal_duty"])
    .meta({ id: "ErasureReason" }),
);

export const consentEntry = /* @__PURE__ */ lazy(() =>
  z
    .strictObject({
      consentId: z.string().meta(words("The id of the entry.", "con_2gYb6nR1tVj8mXq4sKc0Wd")),
      distinctId: z
        .string()
        .meta(words("The id of the person, as your analytics, credits or consents use it.", "user_42")),
      purpose: z.string().meta(words("The purpose of the consent.", "analytics")),
      decision,
      method: z.string().nullable().meta(words("How the person decided. Null if it was not sent.", "banner")),
      noticeVersion: z
        .string()
        .nullable()
        .meta(words("The version of the notice that the person saw. Null if it was not sent.", "2026-01")),
      source: z.string().nullable().meta(words("Where it comes from. Null if it was not sent.", "web")),
      gpc: z
        .boolean()
        .nullable()
        .meta(words("Whether the browser sent Global Privacy Control. Null if it was not sent.", false)),
      isDevice: z.boolean().meta(words("Whether the id is a device's.", false)),
      occurredAt: time.meta(words("When it happened.", "2026-01-16T08:30:00.000Z")),
      receivedAt: time.meta(words("When Purser received it.", "2026-01-16T08:30:00.412Z")),
    })
    .meta({ id: "ConsentEntry" }),
);

export const decision = lazy(() =>
  z.enum(["granted", "denied", "withdrawn"]).meta({ id: "ConsentDecision", ...words("The decision.", "granted") }),
);

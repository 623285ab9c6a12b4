import * as z from "zod";

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

import * as z from "zod";
import { quantitiesOutput } from "../books/amounts/responses.ts";
import { time } from "../http/responses.ts";
import { erasureReason } from "./schemas.ts";

const rows = z.int();

const countsOutput = {
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
export type ErasureCounts = z.infer<z.ZodObject<typeof countsOutput>>;

const distinctIdsOutput = z.lazy(() =>
  z
    .array(z.string())
    .describe("The person's ids, at most 10,000 of them. Absent when the erasure had already started."),
);
const distinctIdCount = z.int();
const erasureIdOutput = z.string();
const status = z.lazy(() =>
  z
    .enum(["running", "completed"])
    .meta({ id: "ErasureStatus" })
    .describe("A large person is erased in steps, by the cron or by a repeated call."),
);

export const erasePersonOutput = z.lazy(() =>
  z
    .strictObject({
      erasureId: erasureIdOutput.optional().describe("Absent in a dry run."),
      status: status.optional(),
      distinctIds: distinctIdsOutput.optional(),
      distinctIdCount,
      notErased: z
        .array(z.string())
        .optional()
        .describe("Ids that are not in the request's `distinctIds`, and that only claims by publishable keys reach."),
      ...countsOutput,
    })
    .meta({ id: "ErasedPerson" }),
);
export type ErasePersonOutput = z.infer<typeof erasePersonOutput>;

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
export type ErasureOutput = z.infer<typeof erasureOutput>;

import * as z from "zod";
import { identifier, mode } from "../http/fields.ts";

/** The most ids in a response's list and in a request. */
export const LISTED_IDS_MAX = 10_000;

export const erasureReason = z.lazy(() =>
  z
    .enum(["request", "consent_withdrawn", "objection", "not_needed", "unlawful", "legal_duty"])
    .meta({ id: "ErasureReason" }),
);

const someIds = () =>
  z.array(identifier()).min(1, "must not be empty").max(LISTED_IDS_MAX, `must have at most ${LISTED_IDS_MAX} ids`);

export const erasePersonInput = z.lazy(() =>
  z
    .strictObject({
      distinctId: identifier().describe("Any id of the person. That id and all ids that it claims are erased."),
      dryRun: z.boolean().default(false).describe("Changes nothing, and returns what would be erased."),
      distinctIds: someIds()
        .optional()
        .describe(
          "The person's ids, as a dry run listed them. If they have changed since, nothing is erased. Ids that only claims by publishable keys reach may be missing; they are then not erased.",
        ),
      distinctIdCount: z
        .int()
        .min(1)
        .optional()
        .describe(
          "How many ids the person has, as a dry run counted them. It replaces `distinctIds` for a person with more ids than that list may have. If the number has changed since, nothing is erased.",
        ),
      blockIds: someIds()
        .optional()
        .describe(
          "Ids to block too, among those that only claims by publishable keys reach. Nothing is stored for a blocked id from then on. For the others only mentions are removed, until something new is sent under them.",
        ),
      keepConsent: z
        .boolean()
        .default(false)
        .describe("Keeps the consent log as evidence of the decisions, with a keyed hash in place of each id."),
      reason: erasureReason.optional().describe("The reason for the erasure, for the receipt."),
    })
    .refine((input) => input.distinctIds === undefined || input.distinctIdCount === undefined, {
      path: ["distinctIdCount"],
      message: "must not be given beside `distinctIds`",
    })
    .meta({ id: "ErasePerson" }),
);
export type ErasePersonInput = z.infer<typeof erasePersonInput>;

export const forgetTombstonesInput = z.lazy(() =>
  z
    .strictObject({
      mode,
      fingerprint: z
        .string()
        .min(1)
        .max(100)
        .describe("The fingerprint of the lost secret, as the receipts of its erasures have it (`fingerprint`)."),
    })
    .meta({ id: "ForgetTombstones" }),
);
export type ForgetTombstonesInput = z.infer<typeof forgetTombstonesInput>;

import * as z from "zod";
import { identifier } from "../http/fields.ts";

/** The most ids in a response's list and in a request. */
export const LISTED_IDS_MAX = 10_000;

export const erasureReason = z.lazy(() =>
  z
    .enum(["request", "consent_withdrawn", "objection", "not_needed", "unlawful", "legal_duty"])
    .meta({ id: "ErasureReason" }),
);

const idList = () =>
  z.array(identifier()).min(1, "must not be empty").max(LISTED_IDS_MAX, `must have at most ${LISTED_IDS_MAX} ids`);

export const erasePersonInput = z.lazy(() =>
  z
    .strictObject({
      distinctId: identifier().describe("Any id of the person. That id and all ids that it claims are erased."),
      dryRun: z.boolean().default(false).describe("Changes nothing, and returns what would be erased."),
      distinctIds: idList()
        .optional()
        .describe(
          "The person's ids, as a dry run listed them. If they have changed since, nothing is erased. You may leave out ids that only claims by publishable keys reach. They are then not erased.",
        ),
      distinctIdCount: z
        .int()
        .min(1)
        .optional()
        .describe(
          "How many ids the person has, as a dry run counted them. Use it instead of `distinctIds` for a person with more ids than that list may have. If the number has changed since, nothing is erased.",
        ),
      blockIds: idList()
        .optional()
        .describe(
          "Further ids to block, among those that only claims by publishable keys reach. Purser stores nothing more for a blocked id. For an id that is not blocked, only mentions are removed, until something new is sent with it.",
        ),
      keepConsent: z
        .boolean()
        .default(false)
        .describe("Keeps the consent log as evidence of the decisions, with a keyed hash in place of each id."),
      reason: erasureReason.optional().describe("The reason for the erasure, for the receipt."),
    })
    .refine((input) => input.distinctIds === undefined || input.distinctIdCount === undefined, {
      path: ["distinctIdCount"],
      message: "must not be sent together with `distinctIds`",
    })
    .meta({ id: "ErasePerson" }),
);
export type ErasePersonInput = z.infer<typeof erasePersonInput>;

import * as z from "zod";
import { LISTED_IDS_MAX } from "../../erasure/ids-to-erase.ts";
import { erasePerson } from "../../erasure/start-erasure.ts";
import { identifier } from "../../http/fields.ts";
import { secretKey } from "../access.ts";
import { operation } from "../operation.ts";
import {
  counts,
  countsOutput,
  distinctIdCount,
  erasureId,
  erasureIdOutput,
  erasureReason,
  status,
} from "./people-shapes.ts";

const distinctIdsOutput = z.lazy(() =>
  z
    .array(z.string())
    .describe("The person's ids, at most 10,000 of them. Absent when the erasure had already started."),
);

const erasePersonOutput = z.lazy(() =>
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

export default operation({
  id: "erasePerson",
  method: "post",
  path: "/api/v1/erase-person",
  tag: "People",
  access: secretKey(),
  body: erasePersonInput,
  output: () => erasePersonOutput,
  errors: ["changed_meanwhile", "erasure_unavailable"],
  replayable: true,
  idempotent: true,
  summary: "Erase a person",
  description:
    "Deletes the person's data, and removes their names from the books. Remaining credits are revoked, and open " +
    "reservations are released. From then on, writes for these ids are `person_erased`, and their analytics events " +
    "get the usual response but are not stored. Try it with `dryRun: true` first. A repeat returns the same erasure, " +
    "and continues it if it is still running.",
  returns: "The erased data, or in a dry run the data that would be erased.",
  example: () => ({
    body: { distinctId: "user_42", reason: "request" },
    output: {
      erasureId,
      status: "completed",
      distinctIds: ["user_42", "0194685f-1b2c-7d3e-8f40-5a6b7c8d9e0f"],
      distinctIdCount: 2,
      ...counts,
    },
  }),
  handler: (ctx, { body }) => erasePerson(ctx, body),
});

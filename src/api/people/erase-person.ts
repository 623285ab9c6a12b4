import * as z from "zod";
import { LISTED_IDS_MAX } from "../../erasure/ids-to-erase.ts";
import { erasePerson } from "../../erasure/start-erasure.ts";
import { identifier } from "../../http/fields.ts";
import { lazy } from "../../http/lazy.ts";
import { words } from "../../lib/words.ts";
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

const distinctIdsOutput = /* @__PURE__ */ lazy(() =>
  z
    .array(z.string())
    .meta(words("The person's ids, at most 10,000 of them. Absent when the erasure had already started.", ["user_42"])),
);

const erasePersonOutput = /* @__PURE__ */ lazy(() =>
  z
    .strictObject({
      erasureId: erasureIdOutput.optional().meta(words("Absent in a dry run.", "era_5tQw8nR2sVj7mXb4cKd1Lp")),
      status: status
        .optional()
        .meta(words("A large person is erased in steps, by the cron or by a repeated call.", "completed")),
      distinctIds: distinctIdsOutput.optional(),
      distinctIdCount,
      notErased: z
        .array(z.string())
        .optional()
        .meta(
          words("Ids that are not in the request's `distinctIds`, and that only claims by publishable keys reach.", [
            "anonymous-1",
          ]),
        ),
      ...countsOutput,
    })
    .meta({ id: "ErasedPerson" }),
);

const idList = () =>
  z.array(identifier()).min(1, "must not be empty").max(LISTED_IDS_MAX, `must have at most ${LISTED_IDS_MAX} ids`);

export const erasePersonInput = lazy(() =>
  z
    .strictObject({
      distinctId: identifier().meta(
        words("Any id of the person. That id and all ids that it claims are erased.", "user_42"),
      ),
      dryRun: z.boolean().default(false).meta(words("Changes nothing, and returns what would be erased.", true)),
      distinctIds: idList()
        .optional()
        .meta(
          words(
            "The person's ids, as a dry run listed them. If they have changed since, nothing is erased. You may leave out ids that only claims by publishable keys reach. They are then not erased.",
            ["user_42"],
          ),
        ),
      distinctIdCount: z
        .int()
        .min(1)
        .optional()
        .meta(
          words(
            "How many ids the person has, as a dry run counted them. Use it instead of `distinctIds` for a person with more ids than that list may have. If the number has changed since, nothing is erased.",
            2,
          ),
        ),
      blockIds: idList()
        .optional()
        .meta(
          words(
            "Further ids to block, among those that only claims by publishable keys reach. Purser stores nothing more for a blocked id. For an id that is not blocked, only mentions are removed, until something new is sent with it.",
            ["anonymous-1"],
          ),
        ),
      keepConsent: z
        .boolean()
        .default(false)
        .meta(
          words("Keeps the consent log as evidence of the decisions, with a keyed hash in place of each id.", false),
        ),
      reason: erasureReason.optional().meta(words("The reason for the erasure, for the receipt.", "request")),
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
  errors: ["changed_meanwhile", "erasure_unavailable"],
  replayable: true,
  idempotent: true,
  ...(WITH_REFERENCE && {
    output: () => erasePersonOutput,
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
  }),
  handler: (ctx, { body }) => erasePerson(ctx, body),
});

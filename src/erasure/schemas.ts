import * as z from "zod";
import { identifier, mode } from "../http/fields.ts";

/** The most ids that an answer lists and a request names. */
export const idsListedMax = 10_000;

export const erasureReason = z.lazy(() =>
  z
    .enum(["request", "consent_withdrawn", "objection", "not_needed", "unlawful", "legal_duty"])
    .meta({ id: "ErasureReason" }),
);

const someIds = () =>
  z.array(identifier()).min(1, "must not be empty").max(idsListedMax, `must have at most ${idsListedMax} ids`);

export const erasePersonInput = z.lazy(() =>
  z
    .strictObject({
      distinctId: identifier().describe("Any id of the person. What is erased is that id, and all that it claims."),
      dryRun: z.boolean().default(false).describe("Changes nothing, and answers what would be erased."),
      distinctIds: someIds()
        .optional()
        .describe(
          "The person's ids, as a dry run listed them. If they are others by now, nothing is erased. Ids that only claims by publishable keys reach may be missing: they are left out.",
        ),
      distinctIdCount: z
        .int()
        .min(1)
        .optional()
        .describe(
          "How many ids the person has, as a dry run counted them: for a person of more than `distinctIds` lists, and in its place. If they are more or fewer by now, nothing is erased.",
        ),
      blockIds: someIds()
        .optional()
        .describe(
          "Of the person's ids that only claims by publishable keys reach, those of which nothing is stored from then on either. Of the others only mentions are cut, until something new comes under them.",
        ),
      keepConsent: z
        .boolean()
        .default(false)
        .describe("Keeps the consent log, under a keyed hash in place of each id, as evidence of what was decided."),
      reason: erasureReason.optional().describe("Why they are erased, for the receipt."),
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
        .describe("That of the lost secret, as receipts of its erasures tell it (`fingerprint`)."),
    })
    .meta({ id: "ForgetTombstones" }),
);
export type ForgetTombstonesInput = z.infer<typeof forgetTombstonesInput>;

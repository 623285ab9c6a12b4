import * as z from "zod/mini";
import { about, described } from "#described";
import { identifier } from "../http/fields.ts";

/** The most ids that an answer lists and a request names. */
export const idsListedMax = 10_000;

export const erasureReason = described(
  z.enum(["request", "consent_withdrawn", "objection", "not_needed", "unlawful", "legal_duty"]),
  about({ id: "ErasureReason" }),
);

const someIds = () =>
  z
    .array(identifier())
    .check(z.minLength(1, "must not be empty"), z.maxLength(idsListedMax, `must have at most ${idsListedMax} ids`));

export const erasePersonInput = described(
  z.strictObject({
    distinctId: described(
      identifier(),
      about("Any id of the person. What is erased is that id, and all that it claims."),
    ),
    dryRun: described(z._default(z.boolean(), false), about("Changes nothing, and answers what would be erased.")),
    distinctIds: described(
      z.optional(someIds()),
      about(
        "The person's ids, as a dry run listed them. If they are others by now, nothing is erased. Ids that only claims by publishable keys reach may be missing: they are left out.",
      ),
    ),
    blockIds: described(
      z.optional(someIds()),
      about(
        "Of the person's ids that only claims by publishable keys reach, those of which nothing is stored from then on either. Of the others only mentions are cut, until something new comes under them.",
      ),
    ),
    keepConsent: described(
      z._default(z.boolean(), false),
      about("Keeps the consent log, under a keyed hash in place of each id, as evidence of what was decided."),
    ),
    reason: described(z.optional(erasureReason), about("Why they are erased, for the receipt.")),
  }),
  about({ id: "ErasePerson" }),
);
export type ErasePersonInput = z.infer<typeof erasePersonInput>;

import * as z from "zod/mini";
import { about, described } from "#described";
import { identifier } from "../http/fields.ts";

/** The most ids that an answer lists and a request names. */
export const idsListedMax = 10_000;

export const erasureReason = described(
  z.enum(["request", "consent_withdrawn", "objection", "not_needed", "unlawful", "legal_duty"]),
  about({ id: "ErasureReason" }),
);

export const erasePersonInput = described(
  z.strictObject({
    distinctId: described(
      identifier(),
      about("Any id of the person. What is erased is that id, and all that it claims."),
    ),
    dryRun: described(z._default(z.boolean(), false), about("Changes nothing, and answers what would be erased.")),
    distinctIds: described(
      z.optional(
        z
          .array(identifier())
          .check(
            z.minLength(1, "must not be empty"),
            z.maxLength(idsListedMax, `must have at most ${idsListedMax} ids`),
          ),
      ),
      about("The person's ids, as a dry run listed them. If they are others by now, nothing is erased."),
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

import * as z from "zod";
import { TOKEN_FLAWS } from "../auth/jwt.ts";
import { quantitiesOutput } from "../books/amounts/responses.ts";
import { unit } from "../books/amounts/schemas.ts";
import { refusingLimitOutput } from "../books/limits/responses.ts";
import { scope } from "../catalog/admin-keys/schemas.ts";
import { type ErrorCode, errorStatus } from "../errors.ts";
import { mode } from "../http/fields.ts";
import { errorDetail } from "../http/responses.ts";

const shortBalance = z
  .strictObject({
    balanceId: z.string(),
    packName: z.string(),
    unit,
    remaining: z.number(),
    reason: z
      .enum(["exhausted", "wrong_unit", "no_match"])
      .meta({ id: "ShortageReason" })
      .describe("`exhausted`: it would have paid all that it has."),
  })
  .meta({ id: "ShortBalance" });

/** The `details` of each code that has some. A field is optional if not every refusal with the code has it. */
const detailsByCode = {
  invalid_request: z
    .strictObject({ limit: z.int().describe("The most that are allowed.") })
    .optional()
    .describe("Present when the most allowed objects exist, or a list would have too many."),
  invalid_user_token: z
    .strictObject({ reason: z.enum(TOKEN_FLAWS).meta({ id: "TokenFlaw" }) })
    .optional()
    .describe("The flaw of the token. Absent when no token was sent."),
  insufficient_credits: z.strictObject({
    uncovered: quantitiesOutput.describe("The quantities that no balance covers."),
    skipped: z.array(shortBalance).describe("Why each balance that can pay now does not cover them; at most 20."),
  }),
  forbidden: z
    .strictObject({
      scope: scope.optional().describe("The scope that the administration key lacks."),
      appId: z
        .string()
        .nullable()
        .optional()
        .describe("The application that the administration key is not for. Null: it must be for all."),
      mode: mode.optional().describe("The mode that the administration key is not for."),
    })
    .optional()
    .describe("Present when an administration key may not do this."),
  idempotency_conflict: z.strictObject({
    differs: z
      .array(z.string())
      .describe("The fields that differ from those of the first request, as far as they are kept."),
  }),
  changed_meanwhile: z
    .strictObject({
      version: z.int().optional().describe("The current version of a pack."),
      distinctIds: z.array(z.string()).optional().describe("The present ids of a person."),
      distinctIdCount: z.int().optional().describe("How many ids a person has at present."),
    })
    .optional(),
  test_quota_exceeded: z.strictObject({ quota: z.int().describe("The limit of test-mode balances.") }),
  usage_limit_reached: refusingLimitOutput.describe("The limit; of several that refuse it, the one that resets last."),
  export_unavailable: z.strictObject({ reason: z.literal("too_large") }).optional(),
} satisfies Partial<Record<ErrorCode, z.ZodType>>;

const commonDetails = errorDetail.omit({ code: true, details: true }).shape;

/** Returns `InsufficientCreditsError` for `insufficient_credits`. */
const nameOf = (code: string): string =>
  `${code.replace(/(?:^|_)([a-z])/g, (_match, letter: string) => letter.toUpperCase())}Error`;

const codesWithDetails = Object.entries(detailsByCode).map(([code, details]) => ({
  name: nameOf(code),
  codes: [code],
  schema: z.strictObject({ code: z.literal(code), ...commonDetails, details }),
}));

const otherCodes = Object.keys(errorStatus).filter((code) => !(code in detailsByCode));
const withoutDetails = {
  name: "OtherError",
  codes: otherCodes,
  schema: z.strictObject({ code: z.enum(otherCodes), ...commonDetails }),
};

const forms = [...codesWithDetails, withoutDetails];
const reference = (name: string): string => `#/components/schemas/${name}`;

/** The components of the error forms, one for each code with details of its own. */
export const errorComponents: Readonly<Record<string, z.ZodType>> = Object.fromEntries(
  forms.map(({ name, schema }) => [name, schema]),
);

/** The schema of `ErrorDetail`: one of these forms, told apart by `code`. */
export const errorDetailSchema = {
  oneOf: forms.map(({ name }) => ({ $ref: reference(name) })),
  discriminator: {
    propertyName: "code",
    mapping: Object.fromEntries(forms.flatMap(({ name, codes }) => codes.map((code) => [code, reference(name)]))),
  },
};

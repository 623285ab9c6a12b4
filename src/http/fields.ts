import * as z from "zod";
import { withoutKeys } from "../db/key-form.ts";
import { codePoints } from "../lib/code-points.ts";
import { isJsonObject, type JsonObject } from "../lib/json.ts";
import { parseTimestamp } from "../lib/time.ts";
import { isTimeZone } from "../lib/time-zone.ts";
import { words } from "../lib/words.ts";
import { wrongType } from "./issue-text.ts";
import { lazy } from "./lazy.ts";

// Schemas that requests share. All request schemas are lazy: each is built for the first request that needs it, so that the
// Worker starts faster.

const NOT_EMPTY = "must not be empty";

type TextRule = readonly [holds: (text: string) => boolean, message: string];

const isNotEmpty: TextRule = [(text) => text !== "", NOT_EMPTY];
const isWellFormed: TextRule = [(text) => text.isWellFormed(), "must be well-formed Unicode"];
const hasNoControls: TextRule = [(text) => !/\p{Cc}/u.test(text), "must not contain control characters"];
const isTrimmed: TextRule = [(text) => text.trim() === text, "must not begin or end with white space"];
const hasNoNul: TextRule = [(text) => !text.includes("\u0000"), "must not contain NUL"];
/** An id or a name with a key is rejected. Without the key it would be another id. */
const hasNoKey: TextRule = [
  (text) => withoutKeys(text) === text,
  "must not contain a key or a signing secret, because Purser stores none. Send an id or a name of your own",
];
const hasAtMost = (max: number): TextRule => [
  (text) => codePoints(text) <= max,
  `must have at most ${max} code points`,
];

/**
 * Returns a string schema that checks the rules in their order. All rules share one check, because each further check would add
 * two schemas to the start-up time.
 */
const textWith = (rules: readonly TextRule[], lengths: { minLength?: number; maxLength: number }) =>
  z
    .string()
    .superRefine((text, context) => {
      for (const [holds, message] of rules) if (!holds(text)) context.addIssue({ code: "custom", message });
    })
    .meta(lengths);

/**
 * Returns the schema of a name or id that a caller chose (W9): 1 to `codePointsMax` code points, well-formed, without control
 * characters and keys. Purser compares it code unit by code unit, and never trims, normalises or truncates it.
 */
export const identifier = (codePointsMax = 200) =>
  textWith([...shortRules(codePointsMax), hasNoKey], { minLength: 1, maxLength: codePointsMax });

const shortRules = (codePointsMax: number) => [hasAtMost(codePointsMax), isWellFormed, isNotEmpty, hasNoControls];

/** Returns the schema of a text with an identifier's rules that names nothing. Its keys are replaced by their hints (L1). */
export const shortText = () => textWith(shortRules(200), { minLength: 1, maxLength: 200 }).transform(withoutKeys);

/** Adds the rejection of keys to a schema of text that is no identifier, such as a URL. */
export const rejectKeys = (text: string, context: z.core.$RefinementCtx): void => {
  const [holds, message] = hasNoKey;
  if (!holds(text)) context.addIssue({ code: "custom", message });
};

/** Returns the schema of a caller's own id of a thing: `prefix`, followed by any identifier (W9). */
export const prefixedIdentifier = (prefix: string) =>
  textWith(
    [
      hasAtMost(200 + prefix.length),
      isWellFormed,
      hasNoControls,
      hasNoKey,
      [(text) => text.startsWith(prefix) && text !== prefix, `must be \`${prefix}\` and 1 to 200 code points`],
    ],
    { minLength: prefix.length + 1, maxLength: 200 + prefix.length },
  );

/** Returns the schema of a name that the administrator gives: not blank, without white space at its start or end. */
export const displayName = () =>
  textWith([hasAtMost(200), isWellFormed, isNotEmpty, hasNoControls, isTrimmed, hasNoKey], {
    minLength: 1,
    maxLength: 200,
  });

/** The mode that keys, credits and people belong to. */
export const mode = lazy(() =>
  z.enum(["live", "test"]).meta({ id: "Mode", ...words("The mode: live or test.", "live") }),
);

export const userId = lazy(() => identifier().meta(words("Your own id of the user.", "user_42")));

/** The member who used it (ME1). Null counts as absent. */
export const memberId = lazy(() =>
  identifier()
    .nullish()
    .transform((given) => given ?? undefined)
    .meta(words("Your own id of who used it, if the user pays for a team.", "user_7")),
);

/** The position at which a list continues. */
export const cursor = lazy(() =>
  z.string().min(1, NOT_EMPTY).optional().meta(words("The `nextCursor` of the previous page.", "eyJhIjoxfQ")),
);

/**
 * Returns the schema of free text for people: up to `codePointsMax` code points, well-formed, without NUL. SQLite's text functions
 * stop at a NUL. Its keys are replaced by their hints (L1).
 */
export const freeText = (codePointsMax = 2_000) =>
  textWith([hasAtMost(codePointsMax), isWellFormed, hasNoNul], { maxLength: codePointsMax }).transform(withoutKeys);

/** Makes the reference show the type that a field of a query string stands for, instead of a string. */
const shownAs = (schema: { type: "boolean" | "integer"; minimum?: number; maximum?: number }) => ({
  override: ({ jsonSchema }: { jsonSchema: object }): void => {
    Object.assign(jsonSchema, { enum: undefined, pattern: undefined }, schema);
  },
});

const TIMESTAMP_EXAMPLE = "`2026-01-31T12:00:00Z`";

/** Returns what to change about a text that is not a timestamp. */
function timestampAdvice(text: string): string {
  if (/^\d{4}-\d{2}-\d{2}$/.test(text)) return `needs a time and Z or an offset too, such as ${TIMESTAMP_EXAMPLE}`;
  if (/^\d{4}-\d{2}-\d{2}[Tt ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?$/.test(text)) {
    return `needs Z or an offset at its end, such as ${TIMESTAMP_EXAMPLE}`;
  }
  if (/^\d+(\.\d+)?$/.test(text)) return `must be a date and a time such as ${TIMESTAMP_EXAMPLE}, not a number`;
  return `must be an RFC 3339 timestamp with Z or an offset, such as ${TIMESTAMP_EXAMPLE}, of a moment that exists`;
}

/** Rejects a value in a transform. `message` says what to change. */
export function reject(context: z.core.$RefinementCtx, message: string): never {
  context.addIssue({ code: "custom", message });
  return z.NEVER;
}

const timestampWith = <Read>(read: (atMs: number, text: string) => Read) =>
  z
    .string({
      error: ({ input }) =>
        typeof input === "number" ? `must be a string such as ${TIMESTAMP_EXAMPLE}, not a number` : undefined,
    })
    .transform((text, context) => {
      const atMs = parseTimestamp(text);
      return atMs === null ? reject(context, timestampAdvice(text)) : read(atMs, text);
    })
    .meta({ format: "date-time" });

/** A timestamp of a request, read as integer milliseconds. */
export const timestamp = lazy(() => timestampWith((atMs) => atMs));

/** A timestamp of a request, and the date that it was written with. */
export const datedTimestamp = lazy(() => timestampWith((atMs, text) => ({ atMs, date: text.slice(0, 10) })));

/** The name of a time zone that the runtime knows (TZ1). */
export const timeZoneName = lazy(() =>
  z
    .string()
    .refine(
      isTimeZone,
      "must be the IANA name of a time zone, such as `Europe/Berlin`. An offset or an abbreviation is none",
    ),
);

const isNumber = (value: unknown): boolean => typeof value === "number" || typeof value === "symbol";

/**
 * A JSON number of any size, which the schema of the amount checks later. A number that no unit can represent becomes infinite:
 * `1e999`, or a number with more digits than a double can represent.
 */
export const anyNumber = lazy(() =>
  z
    .custom<number | symbol>(isNumber, { error: ({ input }) => wrongType("number", input) })
    .meta({ type: "number" })
    .transform((value) => {
      if (typeof value === "number") return value;
      return value.description?.startsWith("-") ? -Infinity : Infinity;
    }),
);

/** A JSON number of any size, as the decimal that was sent or, if a double represents it, its shortest decimal. */
export const anyDecimal = lazy(() =>
  z
    .custom<number | symbol>(isNumber, { error: ({ input }) => wrongType("number", input) })
    .meta({ type: "number" })
    .transform((value) => (typeof value === "number" ? String(value) : (value.description ?? ""))),
);

/** A JSON object, unchanged, even with a key such as `__proto__`. For its numbers see `roundNumbers`. */
export const jsonObject = lazy(() =>
  z.custom<JsonObject>(isJsonObject, { error: ({ input }) => wrongType("object", input) }).meta({ type: "object" }),
);

/** The value `true` or `false` in a query string. */
export const queryFlag = lazy(() =>
  z
    .enum(["true", "false"], "must be `true` or `false`, in lower case")
    .transform((text) => text === "true")
    .meta(shownAs({ type: "boolean" })),
);

/** Returns the schema of a whole number in a query string or a path, within bounds. */
export const queryInteger = (min: number, max: number) =>
  z
    .string()
    .regex(/^\d{1,15}$/, "must be a whole number")
    .transform(Number)
    .refine((value) => value >= min && value <= max, `must be from ${min} to ${max}`)
    .meta(shownAs({ type: "integer", minimum: min, maximum: max }));

/** Returns the schema of the most rows in a page of a list. */
export const pageLimit = (rows: string, standard = 50) =>
  queryInteger(1, 500)
    .default(standard)
    .meta(words(`The most ${rows} in a page.`));

/** The body of a POST without fields. Every field is unknown (W6). */
export const noFields = lazy(() => z.strictObject({}));

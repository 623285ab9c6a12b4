/** Schemas of fields that several rooms share. */
import * as z from "zod/mini";
import { about, described } from "#described";
import { isJsonObject, type JsonObject } from "../lib/json.ts";
import { parseTimestamp } from "../lib/time.ts";
import { wrongType } from "./issue-text.ts";

const LONE_SURROGATE = "must be well-formed Unicode";
const NOT_EMPTY = "must not be empty";

const wellFormed = (text: string): boolean => text.isWellFormed();
const withoutControls = (text: string): boolean => !/\p{Cc}/u.test(text);
const codePoints = (text: string): number => {
  let count = 0;
  for (const _ of text) count++;
  return count;
};
const atMost = (codePointsMax: number) =>
  z.refine<string>((text) => codePoints(text) <= codePointsMax, `must have at most ${codePointsMax} code points`);

/**
 * A name or id that a caller chose (W9): 1 to `codePointsMax` code points, well-formed, without control characters. It is
 * compared code unit by code unit, and never trimmed, normalised or cut.
 */
export function identifier(codePointsMax = 200) {
  const schema = z
    .string()
    .check(
      z.minLength(1, NOT_EMPTY),
      atMost(codePointsMax),
      z.refine(wellFormed, LONE_SURROGATE),
      z.refine(withoutControls, "must not contain control characters"),
    );
  return described(schema, about({ minLength: 1, maxLength: codePointsMax }));
}

/** A name that the admin gives: not blank, and without white space at its start or end. */
export function displayName() {
  return identifier().check(z.refine((text) => text.trim() === text, "must not begin or end with white space"));
}

/** Keys, credits and people belong to one mode. */
export const mode = described(z.enum(["live", "test"]), about({ id: "Mode" }));

/** Where a list continues. */
export const cursor = described(
  z.optional(z.string().check(z.minLength(1, NOT_EMPTY))),
  about("The `nextCursor` of the previous page."),
);

/** Free text for people: up to `codePointsMax` code points, well-formed, without NUL, where SQLite's text functions end. */
export function freeText(codePointsMax = 2_000) {
  const schema = z.string().check(
    atMost(codePointsMax),
    z.refine(wellFormed, LONE_SURROGATE),
    z.refine((text) => !text.includes("\u0000"), "must not contain NUL"),
  );
  return described(schema, about({ maxLength: codePointsMax }));
}

/** Shows a field of a query string by its own type in the reference. */
const shownAs = (schema: { type: "boolean" | "integer"; minimum?: number; maximum?: number }) => ({
  override: ({ jsonSchema }: { jsonSchema: object }): void => {
    Object.assign(jsonSchema, { enum: undefined, pattern: undefined }, schema);
  },
});

const TIMESTAMP_EXAMPLE = "`2026-01-31T12:00:00Z`";

/** What to change about a text that is no timestamp. */
function timestampAdvice(text: string): string {
  if (/^\d{4}-\d{2}-\d{2}$/.test(text)) return `needs a time and Z or an offset too, such as ${TIMESTAMP_EXAMPLE}`;
  if (/^\d{4}-\d{2}-\d{2}[Tt ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?$/.test(text)) {
    return `needs Z or an offset at its end, such as ${TIMESTAMP_EXAMPLE}`;
  }
  if (/^\d+(\.\d+)?$/.test(text)) return `must be a date and a time such as ${TIMESTAMP_EXAMPLE}, not a number`;
  return `must be an RFC 3339 timestamp with Z or an offset, such as ${TIMESTAMP_EXAMPLE}, of a moment that exists`;
}

/** Reads a value as another, or refuses it: with `refuse`, which takes what to change. */
export function readAs<In extends z.ZodMiniType, Out>(
  schema: In,
  read: (value: z.output<In>, refuse: (message: string) => never) => Out,
) {
  const reading = z.transform((value: z.output<In>, payload) =>
    read(value, (message) => {
      payload.issues.push({ code: "custom", input: value, message });
      return z.NEVER;
    }),
  );
  return z.pipe(schema, reading);
}

/** A timestamp of a request, read as integer milliseconds. */
export const timestamp = described(
  readAs(
    z.string({
      error: ({ input }) =>
        typeof input === "number" ? `must be a string such as ${TIMESTAMP_EXAMPLE}, not a number` : undefined,
    }),
    (text, refuse) => parseTimestamp(text) ?? refuse(timestampAdvice(text)),
  ),
  about({ format: "date-time" }),
);

const isNumber = (value: unknown): boolean => typeof value === "number" || typeof value === "symbol";

/**
 * A JSON number of any size. The schema of the amount checks it later. Numbers that no unit can hold become infinite: `1e999`,
 * and a number with more digits than a double can represent.
 */
export const anyNumber = readAs(
  described(
    z.custom<number | symbol>(isNumber, { error: ({ input }) => wrongType("number", input) }),
    about({
      type: "number",
    }),
  ),
  (value) => {
    if (typeof value === "number") return value;
    return value.description?.startsWith("-") ? -Infinity : Infinity;
  },
);

/** A JSON object, unchanged, with a key such as `__proto__`. For its numbers see `roundNumbers`. */
export const jsonObject = described(
  z.custom<JsonObject>(isJsonObject, { error: ({ input }) => wrongType("object", input) }),
  about({ type: "object" }),
);

/** `true` or `false` in a query string. */
export const queryFlag = described(
  readAs(z.enum(["true", "false"], "must be `true` or `false`, in lower case"), (text) => text === "true"),
  about(shownAs({ type: "boolean" })),
);

/** A whole number in a query string, within bounds. */
function queryInteger(min: number, max: number) {
  const digits = z.string().check(z.regex(/^\d{1,15}$/, "must be a whole number"));
  const number = readAs(digits, Number).check(
    z.refine((value) => value >= min && value <= max, `must be from ${min} to ${max}`),
  );
  return described(number, about(shownAs({ type: "integer", minimum: min, maximum: max })));
}

/** The most rows in a page of a list. */
export const pageLimit = (rows: string, standard = 50) =>
  described(z._default(queryInteger(1, 500), standard), about(`The most ${rows} in a page.`));

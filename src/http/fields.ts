/** The wire forms that several features share. */
import * as z from "zod";
import { isJsonObject, type JsonObject } from "../lib/json.ts";
import { parseTimestamp } from "../lib/time.ts";

const LONE_SURROGATE = "must be well-formed Unicode";

const wellFormed = (text: string): boolean => text.isWellFormed();
const withoutControls = (text: string): boolean => !/\p{Cc}/u.test(text);
const codePoints = (text: string): number => {
  let count = 0;
  for (const _ of text) count++;
  return count;
};

/**
 * A name or id that a caller chose (W9): 1 to `codePointsMax` code points, well-formed, no control characters. Compared
 * code unit by code unit; never trimmed, normalised or cut.
 */
export function identifier(codePointsMax = 200) {
  return z
    .string()
    .min(1, "must not be empty")
    .refine((text) => codePoints(text) <= codePointsMax, `must have at most ${codePointsMax} code points`)
    .refine(wellFormed, LONE_SURROGATE)
    .refine(withoutControls, "must not contain control characters")
    .meta({ minLength: 1, maxLength: codePointsMax });
}

/** A name that the administrator gives to something: neither blank, nor with white space at its beginning or end. */
export function displayName() {
  return identifier().refine((text) => text.trim() === text, "must not begin or end with white space");
}

/** Where a list continues. */
export const cursor = z
  .string()
  .min(1, "must not be empty")
  .optional()
  .describe("The `nextCursor` of the previous page.");

/** Free text for people: up to `codePointsMax` code points, well-formed, no NUL (SQLite's text functions end there). */
export function freeText(codePointsMax = 2_000) {
  return z
    .string()
    .refine((text) => codePoints(text) <= codePointsMax, `must have at most ${codePointsMax} code points`)
    .refine(wellFormed, LONE_SURROGATE)
    .refine((text) => !text.includes("\u0000"), "must not contain NUL")
    .meta({ maxLength: codePointsMax });
}

/** How the reference shows a field of a query string, whose text stands for another type. */
const described = (schema: { type: "boolean" | "integer"; minimum?: number; maximum?: number }) => ({
  override: ({ jsonSchema }: { jsonSchema: object }): void => {
    Object.assign(jsonSchema, { enum: undefined, pattern: undefined }, schema);
  },
});

/** A timestamp as it comes in, read as integer milliseconds. */
export const timestamp = z
  .string()
  .transform((text, context) => {
    const atMs = parseTimestamp(text);
    if (atMs !== null) return atMs;
    context.addIssue({ code: "custom", message: "must be an RFC 3339 timestamp with Z or an offset" });
    return z.NEVER;
  })
  .meta({ format: "date-time" });

const isNumber = (value: unknown): boolean => typeof value === "number" || typeof value === "symbol";

/**
 * A JSON number of any size, for an amount to judge. What no amount can be is infinite: `1e999`, and a number of more
 * digits than a double tells, which has more decimals than every unit or is larger than it holds.
 */
export const anyNumber = z
  .custom<number | symbol>(isNumber, "must be a number")
  .meta({ type: "number" })
  .transform((value) => {
    if (typeof value === "number") return value;
    return value.description?.startsWith("-") ? -Infinity : Infinity;
  });

/** A JSON object kept just as it came, `__proto__` included; for numbers see `roundNumbers`. */
export const jsonObject = z.custom<JsonObject>(isJsonObject, "must be an object").meta({ type: "object" });

/** `true` or `false` in a query string. */
export const queryFlag = z
  .enum(["true", "false"], "must be true or false")
  .transform((text) => text === "true")
  .meta(described({ type: "boolean" }));

/** A whole number in a query string, within bounds. */
export function queryInteger(min: number, max: number) {
  return z
    .string()
    .regex(/^\d{1,15}$/, "must be a whole number")
    .transform(Number)
    .refine((value) => value >= min && value <= max, `must be from ${min} to ${max}`)
    .meta(described({ type: "integer", minimum: min, maximum: max }));
}

import type * as z from "zod";

/** The words for the types of JSON. */
const TYPES: Readonly<Record<string, string>> = {
  string: "a string",
  number: "a number",
  int: "a whole number",
  boolean: "true or false",
  object: "an object",
  record: "an object",
  array: "a list",
  null: "null",
};

const COUNTED_NOUNS: Readonly<Record<string, string>> = {
  string: "character",
  array: "element",
  set: "element",
  map: "field",
};

function countOf(origin: string, limit: number | bigint): string {
  const noun = COUNTED_NOUNS[origin];
  return noun === undefined ? `${limit}` : `${limit} ${noun}${Number(limit) === 1 ? "" : "s"}`;
}

type Limit<Name extends string> = { readonly origin: string; readonly inclusive?: boolean | undefined } & {
  readonly [N in Name]: number | bigint;
};

function tooSmall({ origin, minimum, inclusive }: Limit<"minimum">): string {
  if (COUNTED_NOUNS[origin] === undefined)
    return `must be ${inclusive === false ? "more than" : "at least"} ${minimum}`;
  return Number(minimum) === 1 ? "must not be empty" : `must have at least ${countOf(origin, minimum)}`;
}

function tooBig({ origin, maximum, inclusive }: Limit<"maximum">): string {
  if (COUNTED_NOUNS[origin] === undefined) return `must be ${inclusive === false ? "less than" : "at most"} ${maximum}`;
  return `must have at most ${countOf(origin, maximum)}`;
}

/**
 * A zod issue as a predicate, for a message that begins with the argument's name. It never repeats the value, which may be
 * personal data.
 */
export const describeIssue: z.core.$ZodErrorMap = (issue) => {
  switch (issue.code) {
    case "invalid_type":
      return issue.input === undefined ? "is required" : `must be ${TYPES[issue.expected] ?? issue.expected}`;
    case "invalid_value":
      return issue.input === undefined ? "is required" : `must be ${issue.values.map(String).join(" or ")}`;
    case "too_small":
      return tooSmall(issue);
    case "too_big":
      return tooBig(issue);
    case "invalid_union":
      return issue.input === undefined ? "is required" : "has none of the allowed forms";
    case "not_multiple_of":
      return `must be a multiple of ${issue.divisor}`;
    default:
      return "is malformed";
  }
};

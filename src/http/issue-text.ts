import * as z from "zod";
import { invalid, type PurserError } from "../errors.ts";
import { isJsonObject, ownValue } from "../lib/json.ts";
import { fieldAdvice, type WrongNames } from "./wrong-names.ts";

/** The message for a missing argument. */
export const IS_REQUIRED = "is required";

/** The endings of messages about an unexpected null or object. */
const NOT_NULL = ", not null";
const NOT_AN_OBJECT = ", not an object";

/** The words for the types of JSON. */
const TYPE_NAMES: Readonly<Record<string, string>> = {
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

/** Returns the part of a message that says what was sent instead of the expected type, where that helps. */
function sentInstead(expected: string, input: unknown): string {
  if (input === null) return NOT_NULL;
  if (Array.isArray(input)) return ", not a list";
  if (typeof input === "object") return NOT_AN_OBJECT;
  // A number with more digits than a double has is a symbol (lib/json.ts).
  if (expected === "string") return /^(number|boolean|symbol)$/.test(typeof input) ? ", in quotes" : "";
  const isUnrepresentable = typeof input === "symbol" || input === Infinity || input === -Infinity;
  if ((expected === "number" || expected === "int") && isUnrepresentable) return " that a double can represent";
  if (typeof input !== "string") return "";
  if (expected === "number" || expected === "int") return Number.isNaN(Number(input)) ? "" : ", without quotes";
  if (expected === "boolean") return /^(true|false)$/i.test(input) ? ", without quotes" : "";
  return /^\s*[{[]/.test(input) ? ", not a string that holds JSON" : "";
}

/** Returns the message for a value that does not have the type `expected`. */
export function wrongType(expected: string, input: unknown): string {
  if (input === undefined) return IS_REQUIRED;
  return `must be ${TYPE_NAMES[expected] ?? expected}${sentInstead(expected, input)}`;
}

/** Returns the message for a value that is not one of a few words. */
const wrongWord = (values: readonly unknown[], input: unknown): string =>
  input === undefined ? IS_REQUIRED : `must be ${values.map(String).join(" or ")}`;

const memberOf = (input: unknown, name: string): unknown => (isJsonObject(input) ? ownValue(input, name) : undefined);

/** Returns the message for a field that the object does not have. `schema` is the object's own schema, at any level. */
function unknownField(name: string, input: unknown, schema: unknown): string {
  const isObject = schema instanceof z.ZodObject;
  const [shape, wrongNames] = isObject ? [schema.shape, schema.meta()?.wrongNames] : [{}];
  const value = memberOf(input, name);
  const holdsFields = isJsonObject(value) || (Array.isArray(value) && value.every(isJsonObject));
  const isWrapper = holdsFields && Object.keys(Object(input)).length === 1;
  const knownNames = Object.keys(shape);
  if (isWrapper && knownNames.length > 0)
    return "is unknown: send the fields in it directly, without this field around them";
  return `is unknown: ${fieldAdvice((wrongNames ?? {}) as WrongNames, knownNames, name)}`;
}

/**
 * Writes a zod issue as a predicate, for a message that begins with the argument's name. It never repeats the value, which may
 * be personal data.
 */
const describeIssue: z.core.$ZodErrorMap = (issue) => {
  switch (issue.code) {
    case "invalid_type":
      return wrongType(issue.expected, issue.input);
    case "invalid_value":
      return wrongWord(issue.values, issue.input);
    case "too_small":
      return tooSmall(issue);
    case "too_big":
      return tooBig(issue);
    case "invalid_union":
      if (issue.discriminator !== undefined && Array.isArray(issue.options)) {
        return wrongWord(issue.options, memberOf(issue.input, issue.discriminator));
      }
      return issue.input === undefined ? IS_REQUIRED : "does not have any of the allowed forms";
    case "unrecognized_keys":
      return unknownField(issue.keys[0] ?? "", issue.input, issue.inst);
    case "invalid_key":
      return issue.issues[0]?.message ?? "is malformed";
    case "not_multiple_of":
      return `must be a multiple of ${issue.divisor}`;
    default:
      return "is malformed";
  }
};

z.config({ customError: describeIssue });

/** The most characters of a caller's field name that a response repeats in `param`. */
const PARAM_CHARACTERS_MAX = 200;

/** The most characters of a caller's field name that a message repeats. */
const NAME_CHARACTERS_MAX = 60;

/** Returns `items[0].amount` for the path ["items", 0, "amount"]. */
function pathText(path: readonly PropertyKey[]): string {
  const text = path.reduce<string>((parent, key) => {
    if (typeof key === "number") return `${parent}[${key}]`;
    return parent === "" ? String(key) : `${parent}.${String(key)}`;
  }, "");
  return text.slice(0, PARAM_CHARACTERS_MAX).toWellFormed();
}

const isMisnamed = ({ code, message }: z.core.$ZodIssue): boolean =>
  code === "unrecognized_keys" || message.endsWith(NOT_AN_OBJECT);

/**
 * Returns the issue to report. This is the first issue. If that says that a field is missing, a misnamed field or object may hold
 * its value, so that issue is reported instead. Within a union it is the issue with the longest path.
 */
function issueToReport(issues: readonly z.core.$ZodIssue[]): z.core.$ZodIssue | undefined {
  const [first] = issues;
  const issue = (first?.message.startsWith(IS_REQUIRED) ? issues.find(isMisnamed) : undefined) ?? first;
  if (issue?.code !== "invalid_union") return issue;
  const candidates = issue.errors.map(issueToReport).filter((candidate) => candidate !== undefined);
  const deepest = candidates.toSorted((a, b) => b.path.length - a.path.length)[0];
  if (deepest === undefined || deepest.path.length === 0) return issue;
  return { ...deepest, path: [...issue.path, ...deepest.path] };
}

/**
 * Returns the rejection for the issues. It names the argument, or `whole` when the whole input is wrong. It never contains a
 * value.
 */
export function rejectionOfIssues(issues: readonly z.core.$ZodIssue[], whole: string): PurserError {
  const issue = issueToReport(issues);
  if (issue === undefined) return invalid(whole, "is malformed");
  const param = pathText([...issue.path, ...(issue.code === "unrecognized_keys" ? issue.keys.slice(0, 1) : [])]);
  const isNullField = param !== "" && issue.message.endsWith(NOT_NULL);
  const message = isNullField ? `${issue.message}: omit an optional field instead` : issue.message;
  // A name may be as long as a body. A long one is only in `param`.
  return invalid(param || whole, param.length <= NAME_CHARACTERS_MAX ? message : `This field ${message}.`);
}

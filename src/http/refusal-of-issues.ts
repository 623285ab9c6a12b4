import * as z from "zod";
import { invalid, type PurserError } from "../errors.ts";
import { describeIssue, IS_REQUIRED } from "./issue-text.ts";
import { fieldMeant, fieldsAt } from "./unknown-field.ts";

z.config({ customError: describeIssue });

/** The most characters of a caller's field name that a response repeats. */
const PARAM_CHARACTERS_MAX = 200;

/** What was read, so that a message can say which field was meant. */
export interface Read {
  readonly schema: z.core.$ZodType;
  readonly value: unknown;
  /** Whether the route takes a bare list as well. */
  readonly takesList?: boolean;
}

/** `items[0].amount` for the path ["items", 0, "amount"]. */
function pathText(path: readonly PropertyKey[]): string {
  const text = path.reduce<string>((above, key) => {
    if (typeof key === "number") return `${above}[${key}]`;
    return above === "" ? String(key) : `${above}.${String(key)}`;
  }, "");
  return text.slice(0, PARAM_CHARACTERS_MAX).toWellFormed();
}

/** The most specific issue. Within a union, that is the issue with the longest path. */
function mostSpecificIssue(issue: z.core.$ZodIssue): z.core.$ZodIssue {
  if (issue.code !== "invalid_union") return issue;
  const firsts = issue.errors.flatMap((branch) => branch.slice(0, 1)).map(mostSpecificIssue);
  const furthest = firsts.toSorted((a, b) => b.path.length - a.path.length)[0];
  if (furthest === undefined || furthest.path.length === 0) return issue;
  return { ...furthest, path: [...issue.path, ...furthest.path] };
}

/** The value at a path of what was sent. */
function valueAt(value: unknown, path: readonly PropertyKey[]): unknown {
  return path.reduce<unknown>((inner, key) => Object.getOwnPropertyDescriptor(Object(inner), key)?.value, value);
}

type UnknownFields = z.core.$ZodIssueUnrecognizedKeys;

const isUnknownFields = (issue: z.core.$ZodIssue): issue is UnknownFields => issue.code === "unrecognized_keys";

/** What an unknown field means; null where that is not known. */
function meantBy(
  { path, keys: [name = ""] }: UnknownFields,
  { schema, value, takesList = false }: Read,
): string | null {
  const above = path.filter((key) => typeof key === "string");
  return fieldMeant({ schema, above, name, value: valueAt(value, [...path, name]), takesList });
}

function refuseUnknown(issue: UnknownFields, whole: string, read: Read | null): PurserError {
  const above = issue.path.filter((key) => typeof key === "string");
  const advice = read === null ? null : (meantBy(issue, read) ?? fieldsAt(read.schema, above));
  const param = pathText([...issue.path, issue.keys[0] ?? ""]) || whole;
  return invalid(param, `This field is unknown${advice === null ? "" : `: ${advice}`}.`);
}

/**
 * The refusal for the first issue. It names the argument and never repeats its value. When a field is missing because it
 * has another name, the refusal is for the unknown field.
 */
export function refusalOfIssues(
  issues: readonly z.core.$ZodIssue[],
  whole: string,
  read: Read | null = null,
): PurserError {
  const first = issues[0];
  if (first === undefined) return invalid(whole, "is malformed");
  const issue = mostSpecificIssue(first);
  if (isUnknownFields(issue)) return refuseUnknown(issue, whole, read);
  if (issue.message === IS_REQUIRED && read !== null) {
    const misnamed = issues.filter(isUnknownFields).find((unknown) => meantBy(unknown, read) !== null);
    if (misnamed !== undefined) return refuseUnknown(misnamed, whole, read);
  }
  const param = pathText(issue.path);
  return invalid(param === "" ? whole : param, issue.message);
}

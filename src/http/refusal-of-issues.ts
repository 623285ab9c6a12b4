import * as z from "zod";
import { invalid, type PurserError } from "../errors.ts";
import { describeIssue, IS_REQUIRED, NOT_AN_OBJECT, NOT_NULL } from "./issue-text.ts";

z.config({ customError: describeIssue });

/** The most characters of a caller's field name that a response repeats. */
const PARAM_CHARACTERS_MAX = 200;

/** The most of them that a message repeats. */
const NAME_CHARACTERS_MAX = 60;

/** `items[0].amount` for the path ["items", 0, "amount"]. */
function pathText(path: readonly PropertyKey[]): string {
  const text = path.reduce<string>((above, key) => {
    if (typeof key === "number") return `${above}[${key}]`;
    return above === "" ? String(key) : `${above}.${String(key)}`;
  }, "");
  return text.slice(0, PARAM_CHARACTERS_MAX).toWellFormed();
}

const isMisnamed = ({ code, message }: z.core.$ZodIssue): boolean =>
  code === "unrecognized_keys" || message.endsWith(NOT_AN_OBJECT);

/**
 * The issue that is told: the first, or, where a field is missing, that of the name or the object in which its value stands. Within a union,
 * the one with the longest path.
 */
function toldOf(issues: readonly z.core.$ZodIssue[]): z.core.$ZodIssue | undefined {
  const [first] = issues;
  const issue = (first?.message === IS_REQUIRED ? issues.find(isMisnamed) : undefined) ?? first;
  if (issue?.code !== "invalid_union") return issue;
  const within = issue.errors.map(toldOf).filter((told) => told !== undefined);
  const furthest = within.toSorted((a, b) => b.path.length - a.path.length)[0];
  if (furthest === undefined || furthest.path.length === 0) return issue;
  return { ...furthest, path: [...issue.path, ...furthest.path] };
}

/** The refusal of what the issues tell. It names the argument, or `whole` where it is all of them, and never repeats a value. */
export function refusalOfIssues(issues: readonly z.core.$ZodIssue[], whole: string): PurserError {
  const issue = toldOf(issues);
  if (issue === undefined) return invalid(whole, "is malformed");
  const param = pathText([...issue.path, ...(issue.code === "unrecognized_keys" ? issue.keys.slice(0, 1) : [])]);
  const isNullField = param !== "" && issue.message.endsWith(NOT_NULL);
  const message = isNullField ? `${issue.message}: an optional field is left out instead` : issue.message;
  // A name may be as long as a body. Then it stands in `param` alone.
  return invalid(param || whole, param.length <= NAME_CHARACTERS_MAX ? message : `This field ${message}.`);
}

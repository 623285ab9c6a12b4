import * as z from "zod";
import { invalid, type PurserError } from "../errors.ts";
import { describeIssue } from "./issue-text.ts";

z.config({ customError: describeIssue });

/** The most characters of a caller's field name that a response repeats. */
const PARAM_CHARACTERS_MAX = 200;

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

/** The refusal for the first issue. It names the argument and never repeats its value. */
export function refusalOfIssues(issues: readonly z.core.$ZodIssue[], whole: string): PurserError {
  const first = issues[0];
  if (first === undefined) return invalid(whole, "is malformed");
  const issue = mostSpecificIssue(first);
  if (issue.code === "unrecognized_keys") {
    return invalid(pathText([...issue.path, issue.keys[0] ?? ""]) || whole, "This field is unknown.");
  }
  const param = pathText(issue.path);
  return invalid(param === "" ? whole : param, issue.message);
}

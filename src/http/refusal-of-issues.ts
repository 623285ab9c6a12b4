import * as z from "zod";
import { invalid, type PurserError } from "../errors.ts";
import { describeIssue, IS_REQUIRED, NOT_NULL } from "./issue-text.ts";
import { isOptional } from "./known-fields.ts";
import { fieldMeant, fieldsAt, wrapperIn } from "./unknown-field.ts";

z.config({ customError: describeIssue });

/** The most characters of a caller's field name that a response repeats. */
const PARAM_CHARACTERS_MAX = 200;

/** The most of them that a message repeats. */
const NAME_CHARACTERS_MAX = 60;

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

/** An unknown field of a body. */
interface UnknownField {
  readonly path: readonly PropertyKey[];
  readonly name: string;
}

/** So many unknown fields are compared with the known ones: a body may have thousands. */
const COMPARED_MAX = 8;

function unknownFields(issues: readonly z.core.$ZodIssue[]): UnknownField[] {
  const found: UnknownField[] = [];
  for (const issue of issues) {
    if (found.length >= COMPARED_MAX) break;
    if (issue.code !== "unrecognized_keys") continue;
    for (const name of issue.keys.slice(0, COMPARED_MAX)) found.push({ path: issue.path, name });
  }
  return found.slice(0, COMPARED_MAX);
}

const levelsOf = (path: readonly PropertyKey[]): string[] => path.filter((key) => typeof key === "string");

/** What an unknown field means; null where that is not known. */
function meantBy({ path, name }: UnknownField, { schema, value, takesList = false }: Read): string | null {
  return fieldMeant({ schema, above: levelsOf(path), name, value: valueAt(value, [...path, name]), takesList });
}

function refuseUnknown({ path, name }: UnknownField, advice: string | null, whole: string): PurserError {
  const param = pathText([...path, name]) || whole;
  const words = `is unknown${advice === null ? "" : `: ${advice}`}`;
  // A name may be as long as a body. Then it stands in `param` alone.
  return invalid(param, param.length <= NAME_CHARACTERS_MAX ? words : `This field ${words}.`);
}

/** The refusal for a field that is missing because its value has another name, or all of them have one around them. */
function refuseMisnamed(issues: readonly z.core.$ZodIssue[], whole: string, read: Read): PurserError | null {
  for (const field of unknownFields(issues)) {
    const meant = meantBy(field, read);
    if (meant !== null) return refuseUnknown(field, meant, whole);
  }
  const wrapper = wrapperIn(read.schema, read.value);
  return wrapper === null ? null : invalid(wrapper, `must not be around the arguments: send what is in it`);
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
  const [unknown] = unknownFields([issue]);
  if (unknown !== undefined) {
    const advice = read === null ? null : (meantBy(unknown, read) ?? fieldsAt(read.schema, levelsOf(unknown.path)));
    return refuseUnknown(unknown, advice, whole);
  }
  const misnamed = issue.message === IS_REQUIRED && read !== null ? refuseMisnamed(issues, whole, read) : null;
  if (misnamed !== null) return misnamed;
  const param = pathText(issue.path);
  const isLeftOut = issue.message.endsWith(NOT_NULL) && read !== null && isOptional(read.schema, levelsOf(issue.path));
  return invalid(param === "" ? whole : param, `${issue.message}${isLeftOut ? ": leave it out instead" : ""}`);
}

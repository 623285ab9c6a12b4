import type * as z from "zod";
import { identifier } from "../http/fields.ts";
import { refusalOfIssues } from "../http/validate.ts";

/** The object of an event, as far as it is used. Throws `invalid_request` for one that Stripe would not send. */
export function parse<Schema extends z.ZodType>(schema: Schema, value: unknown): z.output<Schema> {
  const result = schema.safeParse(value);
  if (!result.success) throw refusalOfIssues(result.error.issues, "data.object");
  return result.data;
}

type Texts = readonly (string | null | undefined)[];

const USER = identifier();
/** A user that a grant would take. Null for none, and for what is no user id. */
export function userIn(...texts: Texts): string | null {
  const found = texts.find((value) => value !== null && value !== undefined && value !== "");
  return found !== undefined && USER.safeParse(found).success ? (found ?? null) : null;
}

export const namesOf = (...names: Texts): string[] => [...new Set(names.filter((name) => typeof name === "string"))];

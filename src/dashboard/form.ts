import type * as z from "zod";
import { type PurserError, refusalIn } from "../errors.ts";
import { refusalOfIssues } from "../http/refusal-of-issues.ts";
import { exactNumber } from "../lib/exact-json.ts";

export type Form = Readonly<Record<string, string>>;

/** A field that was filled in; undefined for one that was left empty. */
export function textField(form: Form, name: string): string | undefined {
  const text = form[name];
  return text === undefined || text === "" ? undefined : text;
}

/** A number as a person writes it, for a schema to read; NaN, which every one refuses, for what is none. */
export function numberField(form: Form, name: string): number | symbol | undefined {
  const text = textField(form, name)?.replaceAll(/\s/g, "");
  if (text === undefined) return undefined;
  return /^[+-]?[\d.]+(e[+-]?\d+)?$/i.test(text) ? exactNumber(text) : Number.NaN;
}

/** A moment as `datetime-local` sends it, which is taken as UTC. */
export function timeField(form: Form, name: string): string | undefined {
  const text = textField(form, name);
  return text === undefined ? undefined : `${text}Z`;
}

/** Reads with the schema that the API validates with; throws what the API would answer. */
export function parseForm<Schema extends z.ZodType>(schema: Schema, value: unknown): z.output<Schema> {
  const result = schema.safeParse(value);
  if (!result.success) throw refusalOfIssues(result.error.issues, "form");
  return result.data;
}

/** What comes of a form: the result of its verb, or the refusal that goes back beside the form. */
export async function catchRefusal<T>(
  work: () => Promise<T>,
): Promise<{ result: T; refusal?: undefined } | { result?: undefined; refusal: PurserError }> {
  try {
    return { result: await work() };
  } catch (error) {
    const refusal = refusalIn(error);
    if (refusal === null) throw error;
    return { refusal };
  }
}

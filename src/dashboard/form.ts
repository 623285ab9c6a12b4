import type * as z from "zod/mini";
import { type PurserError, refusalIn } from "../errors.ts";
import { refusalOfIssues } from "../http/refusal-of-issues.ts";
import { exactNumber } from "../lib/exact-json.ts";

export type Form = Readonly<Record<string, string>>;

/** The text of a field; undefined when it is empty. */
export function textField(form: Form, name: string): string | undefined {
  const text = form[name];
  return text === undefined || text === "" ? undefined : text;
}

/** A number as a person types it, for a schema to read. NaN, which every schema refuses, when it is not a number. */
export function numberField(form: Form, name: string): number | symbol | undefined {
  const text = textField(form, name)?.replaceAll(/\s/g, "");
  if (text === undefined) return undefined;
  return /^[+-]?[\d.]+(e[+-]?\d+)?$/i.test(text) ? exactNumber(text) : Number.NaN;
}

/** A time from a `datetime-local` field, read as UTC. */
export function timeField(form: Form, name: string): string | undefined {
  const text = textField(form, name);
  return text === undefined ? undefined : `${text}Z`;
}

/** Reads a value with the API's own schema. Throws the refusal that the API would return. */
export function parseForm<Schema extends z.ZodMiniType>(schema: Schema, value: unknown): z.output<Schema> {
  const result = schema.safeParse(value);
  if (!result.success) throw refusalOfIssues(result.error.issues, "form");
  return result.data;
}

/** The result of a verb, or its refusal, which is shown with the form. Other errors are thrown. */
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

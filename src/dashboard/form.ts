import { type Context, Hono } from "hono";
import { createContext, useContext } from "hono/jsx";
import type * as z from "zod";
import { assert, invalid, PurserError, rejectionIn } from "../errors.ts";
import type { AppEnv } from "../http/factory.ts";
import { rejectionOfIssues } from "../http/issue-text.ts";
import { exactNumber } from "../lib/json.ts";
import type { Mode, TenantCtx } from "../runtime.ts";
import type { ShownUnits } from "./unit-amount.tsx";

export type Form = Readonly<Record<string, string>>;

/** Returns the text of a field, or undefined when it is empty. */
export function textField(form: Form, name: string): string | undefined {
  const text = form[name];
  return text === undefined || text === "" ? undefined : text;
}

const PLAIN = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i;
/** A number with thousands separated by commas, spaces, apostrophes or underscores, the same separator throughout. */
const IN_THOUSANDS = /^[+-]?\d{1,3}(?:([,\s'\u2019_])\d{3})(?:\1\d{3})*(\.\d+)?$/;

/**
 * Reads a number as a person types it, for a schema to check: also `1,000`, `1 000` and a typographic minus. Rejects ambiguous
 * text, such as `100,5`, under the name of its argument, `param`.
 */
export function numberField(form: Form, name: string, param = name): number | symbol | undefined {
  const text = textField(form, name)
    ?.trim()
    .replace(/^[\u2212\u2012-\u2015\ufe63\uff0d]\s*/, "-");
  if (text === undefined || text === "") return undefined;
  if (PLAIN.test(text)) return exactNumber(text);
  if (IN_THOUSANDS.test(text)) return exactNumber(text.replaceAll(/[,\s'\u2019_]/g, ""));
  throw invalid(param, "must be a number such as `1,000` or `0.5`: a point before decimals, commas between thousands");
}

/** Reads a time from a `datetime-local` field, or the start of a day from a `date` field, as UTC. */
export function timeField(form: Form, name: string): string | undefined {
  const text = textField(form, name);
  if (text === undefined) return undefined;
  return /^\d{4}-\d{2}-\d{2}$/.test(text) ? `${text}T00:00:00Z` : `${text}Z`;
}

/**
 * Returns the forms of a list's rows, in the order of their numbers: the field `rules.3.event` is `event` in the form of row 3.
 * Removed rows leave gaps. Looks at each field once.
 */
export function formsOfRows(form: Form, list: string): readonly Form[] {
  const rows = new Map<number, [name: string, text: string][]>();
  for (const [name, text] of Object.entries(form)) {
    if (!name.startsWith(`${list}.`)) continue;
    const [, number, field] = /^(\d{1,6})\.(.+)$/.exec(name.slice(list.length + 1)) ?? [];
    if (field === undefined) continue;
    const row = rows.get(Number(number)) ?? [];
    row.push([field, text]);
    rows.set(Number(number), row);
  }
  return [...rows].sort(([a], [b]) => a - b).map(([, fields]) => Object.fromEntries(fields));
}

/** Reads a value with the API's own schema. Throws the rejection that the API would return. */
export function parseForm<Schema extends z.ZodType>(schema: Schema, value: unknown): z.output<Schema> {
  const result = schema.safeParse(value);
  if (!result.success) throw rejectionOfIssues(result.error.issues, "form");
  return result.data;
}

/** Returns an object of the page's mode. Throws `not_found` for one of the other mode. */
export function inPageMode<Row extends { readonly mode: Mode }>(c: PageContext, row: Row, name: string): Row {
  const { mode } = c.var;
  if (row.mode !== mode) throw new PurserError("not_found", `There is no such ${name} in ${mode} mode.`);
  return row;
}

/** Returns the result of a function, or its rejection, which the page shows with the form. Throws other errors. */
export async function catchRejection<T>(
  work: () => Promise<T>,
): Promise<{ result: T; rejection?: undefined } | { result?: undefined; rejection: PurserError }> {
  try {
    return { result: await work() };
  } catch (error) {
    const rejection = rejectionIn(error);
    if (rejection === null) throw error;
    return { rejection };
  }
}

/** A sign-in to the dashboard. */
export interface FormSession {
  /** The session's id, or one for the subject of Cloudflare Access. Form tokens are bound to it. */
  readonly sessionId: string;
  /** The token that every form contains. */
  readonly formToken: string;
  readonly isByAccess: boolean;
  /** The name in the audit log. */
  readonly by: string;
}

/** The variables of a request. `requireSignIn` sets `session` and `admin`; `inEnvironment` sets `ctx`. */
export interface DashboardEnv {
  Bindings: AppEnv["Bindings"];
  Variables: AppEnv["Variables"] & {
    session: FormSession;
    ctx: TenantCtx;
    appId: string;
    mode: Mode;
    appName: string;
    units: ShownUnits;
    /** The submitted form, set by `requireSignIn`. Empty for a GET. */
    form: Readonly<Record<string, string>>;
  };
}

/** The request of a page, and how it is answered. */
export type PageContext = Context<DashboardEnv>;

/** The request of the page that is rendered. */
export const RequestContext = createContext<PageContext | null>(null);

/** Returns the request of the page. Only for components. */
export function useRequest(): PageContext {
  const c = useContext(RequestContext);
  assert(c !== null, "a component stands outside a page");
  return c;
}

export const createDashboardRoutes = () => new Hono<DashboardEnv>();

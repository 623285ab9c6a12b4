import type { Context } from "hono";
import type { PurserError } from "../errors.ts";
import { Field, Hidden } from "./components.tsx";
import type { DashboardEnv } from "./env.ts";
import type { Form } from "./form.ts";
import { page } from "./layout.tsx";

const IN_DASHBOARD = /^\/admin\/apps(?:\/[\w.~%-]+)*\/?$/;
const QUERY = /^[\w&=%.~+*'()!:@,;/-]*$/;

const isPage = (path: string): boolean => IN_DASHBOARD.test(path) && !path.includes("..");

/** The page after a sign-in: always a page of the dashboard, with its query. */
export function destination(next = ""): string {
  const [path = "", query = "", ...rest] = next.split("?");
  if (!isPage(path) || !QUERY.test(query) || rest.length > 0) return "/admin/apps";
  return query === "" ? path : `${path}?${query}`;
}

/** A form that was sent after its session had ended. */
export interface KeptForm {
  readonly path: string;
  readonly fields: Form;
}

/** The form that a sign-in page kept. Null when there is none, or it is for no page of the dashboard. */
export function readKeptForm(text: string | undefined): KeptForm | null {
  if (text === undefined || text === "") return null;
  try {
    const { path, fields } = JSON.parse(text) as { path?: unknown; fields?: unknown };
    if (typeof path !== "string" || !isPage(path) || typeof fields !== "object" || fields === null) return null;
    const texts = Object.entries(fields).filter((field): field is [string, string] => typeof field[1] === "string");
    return { path, fields: Object.fromEntries(texts) };
  } catch {
    return null;
  }
}

interface SignIn {
  readonly next?: string | undefined;
  readonly kept?: KeptForm | null;
  readonly name?: string | undefined;
  readonly refusal?: PurserError | undefined;
}

export function signInPage(c: Context<DashboardEnv>, { next, kept = null, name, refusal }: SignIn) {
  const keptField: Record<string, string> = kept === null ? {} : { kept: JSON.stringify(kept) };
  return page(
    c,
    { title: "Sign in", refusal },
    <form method="post" action="/admin/sign-in" class="card signin">
      {kept !== null && (
        <p class="notice good" role="status">
          Your session ended before the form was sent. Nothing was changed, and the form is kept: sign in to send it.
        </p>
      )}
      <p class="soft">
        The admin token is the secret <code>ADMIN_TOKEN</code> of your deployment.
      </p>
      <Hidden fields={{ next: destination(next), ...keptField }} />
      <div class="row">
        <Field
          label="Your name (optional)"
          hint="for the audit"
          name="name"
          value={name}
          autocomplete="username"
          refusal={refusal}
        />
        <Field
          label="Admin token"
          name="token"
          type="password"
          required
          autocomplete="current-password"
          refusal={refusal}
        />
        <button type="submit">Sign in</button>
      </div>
    </form>,
  );
}

import type { Context } from "hono";
import { raw } from "hono/html";
import type { Child } from "hono/jsx";
import { errorStatus, type PurserError } from "../errors.ts";
import { logUnavailable } from "../http/errors.ts";
import { iso } from "../lib/time.ts";
import type { Mode } from "../runtime.ts";
import { assetPaths } from "./assets.ts";
import { FIELD_ERROR, RefusalText } from "./components.tsx";
import type { DashboardEnv } from "./env.ts";
import { query, time } from "./format.ts";

type Section =
  | "overview"
  | "packs"
  | "users"
  | "people"
  | "payments"
  | "keys"
  | "alerts"
  | "webhooks"
  | "limits"
  | "clock"
  | "audit";

const SECTIONS: readonly (readonly [section: Section, name: string])[] = [
  ["overview", "Overview"],
  ["packs", "Packs"],
  ["users", "Users"],
  ["people", "People"],
  ["payments", "Payments"],
  ["keys", "Keys"],
  ["alerts", "Alerts"],
  ["webhooks", "Webhooks"],
  ["limits", "Limits"],
  ["clock", "Clock"],
  ["audit", "Audit"],
];

/** The section that a path lies in: `users` of `/admin/apps/…/live/users/grant`. Undefined for a path of none. */
export function sectionOfPath(c: Context<DashboardEnv>): Section | undefined {
  const name = c.req.path.split("/")[5];
  return SECTIONS.find(([each]) => each === name)?.[0];
}

/** Live mode has no clock of its own. */
const sectionsOf = (mode: Mode) => SECTIONS.filter(([each]) => each !== "clock" || mode === "test");

interface PageOptions {
  readonly title: string;
  /** The section of the application; absent on pages outside of one. */
  readonly section?: Section | undefined;
  /** Why the submitted form was refused. */
  readonly refusal?: PurserError | undefined;
  /** The result of the submitted form. */
  readonly notice?: string | undefined;
}

/** The path of a page of the current application and mode. */
export function pathIn(c: Context<DashboardEnv>, rest: string): string {
  const { appId, mode } = c.var.ctx.environment;
  return `/admin/apps/${encodeURIComponent(appId)}/${mode}/${rest}`;
}

/** Returns a page, with the refusal's status if there is one. */
export function page(c: Context<DashboardEnv>, options: PageOptions, body: Child) {
  if (options.refusal !== undefined) logUnavailable(options.refusal, c.var.requestId);
  const status = options.refusal === undefined ? 200 : errorStatus[options.refusal.code];
  const path = assetPaths();
  const rendered = String(<div class="body">{body}</div>);
  // Said once: above only when no field of the page says it.
  const refusal = rendered.includes(`class="${FIELD_ERROR}"`) ? undefined : options.refusal;
  const document = (
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <meta name="color-scheme" content="light dark" />
        <title>{[options.title, ...placeOf(c), "Purser"].join(" · ")}</title>
        <link rel="stylesheet" href={path.styles} />
        <link rel="icon" href={path.icon} type="image/svg+xml" />
        <script src={path.script} defer />
      </head>
      <body data-refused={isRefusedForm(c, options) ? "" : undefined}>
        <a class="skip" href="#main">
          Skip to content
        </a>
        <Header c={c} section={options.section} />
        <main id="main" tabindex={-1}>
          <h1>{options.title}</h1>
          <Notice refusal={refusal} notice={options.notice} />
          {raw(rendered)}
        </main>
      </body>
    </html>
  );
  return c.html(`<!DOCTYPE html>${document}`, status);
}

/** Whether the page answers a form of its section. */
const isRefusedForm = (c: Context<DashboardEnv>, { refusal, section }: PageOptions): boolean =>
  c.req.method === "POST" && refusal !== undefined && section !== undefined;

/** The application and its mode, on a page of one. */
const placeOf = ({ var: { appName, ctx } }: Context<DashboardEnv>): readonly string[] =>
  appName === undefined ? [] : [`${appName} (${ctx.environment.mode})`];

const Notice = (props: { refusal?: PurserError | undefined; notice?: string | undefined }) => (
  <>
    {props.refusal !== undefined && (
      <p class="notice bad" role="alert">
        <RefusalText refusal={props.refusal} />
      </p>
    )}
    {props.notice !== undefined && (
      <p class="notice good" role="status">
        {props.notice}
      </p>
    )}
  </>
);

const Header = ({ c, section }: { c: Context<DashboardEnv>; section?: Section | undefined }) => {
  const { session, ctx } = c.var;
  if (session === undefined)
    return (
      <header class="bar">
        <Brand />
      </header>
    );
  return (
    <header class="bar">
      <Brand />
      {ctx !== undefined && <Breadcrumb c={c} section={section} />}
      <span class="out">
        <a href="/docs">Docs</a>
        {!session.isByAccess && <a href="/admin/apps/sessions">Sessions</a>}
        <form method="post" action="/admin/sign-out">
          <FormToken c={c} />
          <button type="submit" class="quiet">
            Sign out
          </button>
        </form>
      </span>
    </header>
  );
};

const Brand = () => (
  <a class="brand" href="/admin/apps">
    Purser
  </a>
);

/** The current application, a link to each mode, and the sections. */
const Breadcrumb = ({ c, section }: { c: Context<DashboardEnv>; section: Section | undefined }) => {
  const { appId, mode } = c.var.ctx.environment;
  // The same user or person in the other mode.
  const { userId, distinctId } = { ...c.req.query(), ...c.var.form };
  const kept = query(section === "users" ? { userId } : section === "people" ? { distinctId } : {});
  return (
    <>
      <span class="place">
        <b>{c.var.appName}</b>
        <span class="modes">
          {(["live", "test"] as const).map((each) => (
            <a
              href={`/admin/apps/${encodeURIComponent(appId)}/${each}/${section ?? "overview"}${kept}`}
              class={each}
              aria-current={each === mode ? "true" : undefined}
            >
              {each}
            </a>
          ))}
        </span>
        {c.var.ctx.clock !== null && (
          <a href={pathIn(c, "clock")} class="tag test">
            {time(iso(c.var.ctx.now())).slice(0, 16)}
          </a>
        )}
      </span>
      <nav aria-label="Sections">
        {sectionsOf(mode).map(([each, name]) => (
          <a href={pathIn(c, each)} aria-current={each === section ? "page" : undefined}>
            {name}
          </a>
        ))}
      </nav>
    </>
  );
};

/** The token that every form of the dashboard contains. */
export const FormToken = ({ c }: { c: Context<DashboardEnv> }) => (
  <input type="hidden" name="_form" value={c.var.session.formToken} />
);

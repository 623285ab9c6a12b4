import { createMiddleware } from "hono/factory";
import { raw } from "hono/html";
import type { Child } from "hono/jsx";
import { errorStatus, type PurserError } from "../errors.ts";
import { logUnavailable } from "../http/error-responses.ts";
import { type DashboardFile, referenceFile } from "../http/factory.ts";
import { iso } from "../lib/time.ts";
import { pathIn } from "./app-link.tsx";
import { FIELD_ERROR, RejectionText } from "./fields.tsx";
import { type DashboardEnv, type PageContext, RequestContext, useRequest } from "./form.ts";
import { NowContext, queryString, timeText } from "./format.tsx";
import { Icon } from "./icons.tsx";
import { showInvisible } from "./invisible.ts";
import { Bar, Brand, OutsideBar, type Place, type Section, Sidebar, sectionNamed } from "./shell.tsx";
import { NO_UNITS, UnitsContext } from "./unit-amount.tsx";

/** The files that the pages load, built from clients/dashboard. The pages load nothing from another site. */
const CONTENT_TYPES: Readonly<Record<string, readonly [file: DashboardFile, type: string]>> = {
  "dashboard.css": ["dashboard.css", "text/css; charset=utf-8"],
  "dashboard.js": ["dashboard.js", "text/javascript; charset=utf-8"],
  "icon.svg": ["dashboard.svg", "image/svg+xml"],
};

/** Returns a file of the pages with its type, or null if there is no such file. */
export async function readAsset(env: Env, name: string): Promise<{ text: string; type: string } | null> {
  if (!Object.hasOwn(CONTENT_TYPES, name)) return null;
  const [file, type] = CONTENT_TYPES[name] ?? [];
  return file === undefined || type === undefined ? null : { text: await referenceFile(env, file), type };
}

let version: string | undefined;

/** Reads the version of the files once in each isolate, because a new version is a new deployment. */
export const withAssets = createMiddleware<DashboardEnv>(async (c, next) => {
  version ??= await referenceFile(c.env, "dashboard.version");
  await next();
});

/** Returns the address of a file. It changes with the file, so that browsers may cache it forever. */
const assetPath = (name: "dashboard.css" | "dashboard.js" | "icon.svg"): string =>
  `/admin/assets/${name}?v=${version ?? ""}`;

/** Returns the section of a path: `users` for `/admin/apps/…/live/users/grant`. Undefined for a path outside all sections. */
export const sectionOfPath = (c: PageContext): Section | undefined => sectionNamed(c.req.path.split("/")[5]);

interface PageOptions {
  readonly title: string;
  /** The section of the application; absent on pages outside an application. */
  readonly section?: Section | undefined;
  /** Why the submitted form was rejected. */
  readonly rejection?: PurserError | undefined;
  /** The result of the submitted form. */
  readonly notice?: string | undefined;
  /** Buttons beside the title. */
  readonly actions?: Child;
}

/** Returns a page, with the rejection's status if there is one. */
export function page(c: PageContext, options: PageOptions, body: Child) {
  if (options.rejection !== undefined) logUnavailable(options.rejection, c.var.requestId);
  const status = options.rejection === undefined ? 200 : errorStatus[options.rejection.code];
  // Elements are rendered here, where the page's time is known.
  const rendered = String(
    <RequestContext.Provider value={c}>
      <NowContext.Provider value={timesOfPage(c)}>
        <UnitsContext.Provider value={c.var.units ?? NO_UNITS}>{body}</UnitsContext.Provider>
      </NowContext.Provider>
    </RequestContext.Provider>,
  );
  // The rejection appears once: at the top only when no field of the page shows it.
  const rejection = rendered.includes(`class="${FIELD_ERROR}"`) ? undefined : options.rejection;
  const main = (
    <main id="main" tabindex={-1}>
      <div class="page-head">
        <h1>{options.title}</h1>
        {options.actions !== undefined && <div class="actions">{options.actions}</div>}
      </div>
      <Notice rejection={rejection} notice={options.notice} />
      {raw(rendered)}
    </main>
  );
  const document = (
    <RequestContext.Provider value={c}>
      <html lang="en">
        <head>
          <meta charset="utf-8" />
          <meta name="viewport" content="width=device-width, initial-scale=1" />
          <meta name="color-scheme" content="light dark" />
          <title>{[options.title, ...titlePlaces(c), "Purser"].join(" · ")}</title>
          <link rel="stylesheet" href={assetPath("dashboard.css")} />
          <link rel="icon" href={assetPath("icon.svg")} type="image/svg+xml" />
          <script src={assetPath("dashboard.js")} defer />
        </head>
        <Body c={c} options={options} main={main} />
      </html>
    </RequestContext.Provider>
  );
  return c.html(`<!DOCTYPE html>${showInvisible(String(document))}`, status);
}

/** Returns the environment's time on a page of an environment, and real time. */
const timesOfPage = ({ var: { ctx, root } }: PageContext) => {
  const realMs = root?.now() ?? 0;
  return { nowMs: ctx?.now() ?? realMs, realMs };
};

interface BodyProps {
  readonly c: PageContext;
  readonly options: PageOptions;
  readonly main: Child;
}

/** Shows the page in its shell: with the application's menu, without one, or bare before the sign-in. */
const Body = ({ c, options, main }: BodyProps) => {
  const { session, ctx } = c.var;
  const isRejected = isRejectedForm(c, options) ? "" : undefined;
  const skip = (
    <a class="skip" href="#main">
      Skip to content
    </a>
  );
  if (session === undefined) {
    return (
      <body class="alone" data-refused={isRejected}>
        <div>
          <Brand />
          {main}
        </div>
      </body>
    );
  }
  const { isByAccess } = session;
  if (ctx === undefined) {
    return (
      <body class="outside" data-refused={isRejected}>
        {skip}
        <OutsideBar isByAccess={isByAccess} signOut={<SignOut weight="quiet" />} />
        {main}
      </body>
    );
  }
  const place = placeIn(c, options.section);
  return (
    <body class="app" data-mode={place.mode} data-refused={isRejected}>
      {skip}
      <Sidebar place={place} isByAccess={isByAccess} signOut={<SignOut weight="bare" />} />
      <div class="page">
        <Bar place={place} />
        {main}
      </div>
    </body>
  );
};

function placeIn(c: PageContext, section: Section | undefined): Place {
  const { appId, mode } = c.var.ctx.environment;
  // The link leads to the same user or person in the other mode.
  const { userId, distinctId } = { ...c.req.query(), ...c.var.form };
  return {
    appId,
    appName: c.var.appName,
    mode,
    at: pathIn(c, ""),
    section,
    kept: queryString(section === "users" ? { userId } : section === "people" ? { distinctId } : {}),
    clock: c.var.ctx.clock === null ? undefined : timeText(iso(c.var.ctx.now())),
    q: c.req.path.endsWith("/search") ? c.req.query("q") : undefined,
  };
}

const SignOut = ({ weight }: { weight: "quiet" | "bare" }) => (
  <form method="post" action="/admin/sign-out">
    <FormToken />
    <button type="submit" class={weight}>
      {weight === "bare" && <Icon name="signOut" />}
      Sign out
    </button>
  </form>
);

/** Returns whether the page shows a rejected form of its section. */
const isRejectedForm = (c: PageContext, { rejection, section }: PageOptions): boolean =>
  c.req.method === "POST" && rejection !== undefined && section !== undefined;

/** Returns the application's name and mode on a page of an application. */
const titlePlaces = ({ var: { appName, ctx } }: PageContext): readonly string[] =>
  appName === undefined ? [] : [`${appName} (${ctx.environment.mode})`];

const Notice = (props: { rejection?: PurserError | undefined; notice?: string | undefined }) => (
  <>
    {props.rejection !== undefined && (
      <p class="notice bad" role="alert">
        <RejectionText rejection={props.rejection} />
      </p>
    )}
    {props.notice !== undefined && (
      <p class="notice good" role="status">
        {props.notice}
      </p>
    )}
  </>
);

/** Shows the hidden field with the token that every form of the dashboard contains. */
export const FormToken = () => <input type="hidden" name="_form" value={useRequest().var.session.formToken} />;

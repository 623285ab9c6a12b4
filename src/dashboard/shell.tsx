import type { Child } from "hono/jsx";
import type { Mode } from "../runtime.ts";
import { Icon, type IconName } from "./icons.tsx";

interface SectionLink {
  readonly section: string;
  readonly name: string;
  readonly icon: IconName;
}

const GROUPS = [
  { group: null, sections: [{ section: "overview", name: "Overview", icon: "overview" }] },
  {
    group: "Credits",
    sections: [
      { section: "users", name: "Users", icon: "users" },
      { section: "packs", name: "Packs", icon: "packs" },
      { section: "payments", name: "Payments", icon: "payments" },
      { section: "prices", name: "Prices", icon: "packs" },
      { section: "usage", name: "Usage", icon: "chart" },
      { section: "statements", name: "Statements", icon: "book" },
      { section: "usage-limits", name: "Usage limits", icon: "limits" },
    ],
  },
  {
    group: "Personal data",
    sections: [
      { section: "people", name: "People", icon: "people" },
      { section: "limits", name: "Limits", icon: "limits" },
    ],
  },
  {
    group: "Messages",
    sections: [
      { section: "webhooks", name: "Webhooks", icon: "webhooks" },
      { section: "alerts", name: "Alerts", icon: "bell" },
    ],
  },
  {
    group: "Application",
    sections: [
      { section: "keys", name: "Keys", icon: "key" },
      { section: "clock", name: "Clock", icon: "clock" },
      { section: "audit", name: "Audit", icon: "audit" },
    ],
  },
] as const satisfies readonly { readonly group: string | null; readonly sections: readonly SectionLink[] }[];
export type Section = (typeof GROUPS)[number]["sections"][number]["section"];

/** Returns the section of this name, or undefined when there is none. */
export const sectionNamed = (name: string | undefined): Section | undefined =>
  GROUPS.flatMap(({ sections }): readonly { section: Section }[] => sections).find((each) => each.section === name)
    ?.section;

export interface Place {
  readonly appId: string;
  readonly appName: string;
  readonly mode: Mode;
  /** The path of the application in this mode, with a slash at its end. */
  readonly at: string;
  readonly section: Section | undefined;
  /** The part of the query that a link to the other mode keeps. */
  readonly kept: string;
  /** The time of a test clock. */
  readonly clock: string | undefined;
  /** The text that was searched for. */
  readonly q: string | undefined;
}

export const Brand = () => (
  <a class="brand" href="/admin/apps">
    <svg viewBox="0 0 32 32" width="22" height="22" aria-hidden="true">
      <rect width="32" height="32" rx="8" />
      <circle cx="16" cy="16" r="8" />
      <path d="M16 12v8" />
    </svg>
    Purser
  </a>
);

/** Shows the menu of an application. On a phone, the bar's button opens it. */
export const Sidebar = ({ place, isByAccess, signOut }: { place: Place; isByAccess: boolean; signOut: Child }) => (
  <aside class="sidebar" id="menu" popover="auto">
    <Brand />
    <Switcher place={place} />
    <Modes place={place} />
    <nav aria-label="Sections">
      {GROUPS.map(({ group, sections }) => (
        <>
          {group !== null && <p class="nav-group">{group}</p>}
          <ul>
            {(sections as readonly SectionLink[])
              // Live mode has no test clock.
              .filter(({ section }) => section !== "clock" || place.mode === "test")
              .map(({ section, name, icon }) => (
                <li>
                  <a href={place.at + section} aria-current={section === place.section ? "page" : undefined}>
                    <Icon name={icon} />
                    {name}
                  </a>
                </li>
              ))}
          </ul>
        </>
      ))}
    </nav>
    <ul class="foot">
      <li>
        <a href="/docs">
          <Icon name="book" />
          API reference
        </a>
      </li>
      <li>
        <a href="/admin/apps/admin-keys">
          <Icon name="key" />
          Administration keys
        </a>
      </li>
      {!isByAccess && (
        <li>
          <a href="/admin/apps/sessions">
            <Icon name="sessions" />
            Sessions
          </a>
        </li>
      )}
      <li>{signOut}</li>
    </ul>
  </aside>
);

/** Shows the application, and a list to switch to another one. The script loads the list when it is opened. */
const Switcher = ({ place: { appId, appName, mode } }: { place: Place }) => (
  <details class="switcher" data-app={appId} data-mode={mode}>
    <summary title="Switch the application">
      <span class="avatar" aria-hidden="true">
        {[...appName][0]?.toUpperCase()}
      </span>
      <b>{appName}</b>
      <Icon name="switch" />
    </summary>
    <div class="menu-list">
      <div data-apps="/admin/apps/list" />
      <a href="/admin/apps">
        <Icon name="layers" />
        All applications
      </a>
    </div>
  </details>
);

const MODE_NAMES: Readonly<Record<Mode, string>> = { live: "Live", test: "Test" };

const Modes = ({ place: { appId, mode, section, kept } }: { place: Place }) => (
  <div class="modes">
    {(["live", "test"] as const).map((each) => (
      <a
        href={`/admin/apps/${encodeURIComponent(appId)}/${each}/${section ?? "overview"}${kept}`}
        class={each}
        aria-current={each === mode ? "true" : undefined}
      >
        {MODE_NAMES[each]}
      </a>
    ))}
  </div>
);

/** Shows the search and the mode above every page of an application. */
export const Bar = ({ place: { at, mode, q, clock } }: { place: Place }) => (
  <>
    <header class="bar">
      <button type="button" class="quiet open-menu" popovertarget="menu" aria-label="Menu">
        <Icon name="menu" />
      </button>
      <search class="find">
        <form method="get" action={`${at}search`}>
          <Icon name="search" />
          <input
            id="search"
            type="search"
            name="q"
            value={q ?? ""}
            placeholder="Search users, payments, packs, keys"
            aria-label="Search"
            autocomplete="off"
          />
          <span class="key js">/</span>
        </form>
      </search>
      <span class={`tag mode ${mode}`}>{mode === "test" ? "Test mode" : "Live"}</span>
    </header>
    {mode === "test" && (
      <p class="test-strip" role="note">
        Test mode: nothing here is real credit or a real payment.
        {clock !== undefined && (
          <>
            {" "}
            The test clock says <a href={`${at}clock`}>{clock.slice(0, 16)} UTC</a>.
          </>
        )}
      </p>
    )}
  </>
);

/** Shows the bar above a page that belongs to no application. */
export const OutsideBar = ({ isByAccess, signOut }: { isByAccess: boolean; signOut: Child }) => (
  <header class="bar">
    <Brand />
    <span class="out">
      <a href="/docs">API reference</a>
      <a href="/admin/apps/admin-keys">Admin keys</a>
      {!isByAccess && <a href="/admin/apps/sessions">Sessions</a>}
      {signOut}
    </span>
  </header>
);

import type { Child } from "hono/jsx";
import { findReferences } from "../books/credits/find-entries.ts";
import { findUsers } from "../books/credits/users.ts";
import { readUsageEvent } from "../books/usage/describe-events.ts";
import { listKeys } from "../catalog/keys.ts";
import { listPacks } from "../catalog/pack.ts";
import { invalid } from "../errors.ts";
import { findPeople } from "../people/list-people.ts";
import { AppLink, pathIn } from "./app-link.tsx";
import { Empty } from "./components.tsx";
import { exists, findNewest, pageOfId, SEARCHED_IDS_MAX } from "./find.ts";
import { createDashboardRoutes, type PageContext, textField } from "./form.ts";
import { amountText } from "./format.tsx";
import { Icon, type IconName } from "./icons.tsx";
import { page } from "./layout.tsx";
import { BalanceLink, EventLink, PaymentLink, PersonLink, ReferenceLink, UserLink } from "./links.tsx";

const SHOWN_FOUND_MAX = 10;
/** How many packs and keys a search examines. */
const SEARCH_LISTED_MAX = 200;
const SEARCH_CHARACTERS_MAX = 500;

interface Group {
  readonly title: string;
  readonly icon: IconName;
  readonly found: readonly Child[];
}

const unique = (texts: readonly string[]): readonly string[] => [...new Set(texts)].slice(0, SHOWN_FOUND_MAX);

async function readGroups(c: PageContext, q: string): Promise<readonly Group[]> {
  const { ctx, root } = c.var;
  const { appId, mode } = ctx.environment;
  const page = { beginning: q, limit: SHOWN_FOUND_MAX };
  const [users, people, newest, references, isEvent, { packs }, { keys }] = await Promise.all([
    findUsers(ctx, page),
    findPeople(ctx, page),
    findNewest(ctx, q, SHOWN_FOUND_MAX),
    findReferences(ctx, q, SHOWN_FOUND_MAX),
    exists(() => readUsageEvent(ctx, q)),
    listPacks(root, appId, SEARCH_LISTED_MAX),
    listKeys(root, appId, { limit: SEARCH_LISTED_MAX }, mode),
  ]);
  const anyContains = (...texts: readonly (string | null)[]) =>
    texts.some((text) => text?.toLowerCase().includes(q.toLowerCase()) === true);
  return [
    {
      title: "Users",
      icon: "users",
      found: unique([...users.users.map(({ userId }) => userId), ...newest.userIds]).map((id) => <UserLink id={id} />),
    },
    {
      title: "People",
      icon: "people",
      found: unique([...people.people.map(({ distinctId }) => distinctId), ...newest.distinctIds]).map((id) => (
        <PersonLink id={id} />
      )),
    },
    {
      title: "Payments",
      icon: "payments",
      found: newest.payments.map((name) => <PaymentLink id={name} />),
    },
    {
      title: "References",
      icon: "layers",
      found: references.map(({ externalRef, userId, balanceId }) => (
        <>
          <ReferenceLink reference={externalRef ?? ""} /> of <UserLink id={userId} />: <BalanceLink id={balanceId} />
        </>
      )),
    },
    { title: "Usage events", icon: "overview", found: isEvent ? [<EventLink id={q} />] : [] },
    {
      title: "Packs",
      icon: "packs",
      found: packs
        .filter(({ packId, packName }) => anyContains(packId, packName))
        .slice(0, SHOWN_FOUND_MAX)
        .map(({ packId, packName }) => <AppLink to={`packs/${packId}`}>{packName}</AppLink>),
    },
    {
      title: "Keys",
      icon: "key",
      found: keys
        .filter(({ keyId, hint, name }) => anyContains(keyId, hint, name) || q.endsWith(hint.slice(-4)))
        .slice(0, SHOWN_FOUND_MAX)
        .map(({ hint, name, kind }) => (
          <AppLink to="keys">
            {name ?? kind} <code>{hint}</code>
          </AppLink>
        )),
    },
  ];
}

async function searchPage(c: PageContext) {
  const q = textField(c.req.query(), "q")?.trim() ?? "";
  if ([...q].length > SEARCH_CHARACTERS_MAX)
    throw invalid("q", `must have at most ${SEARCH_CHARACTERS_MAX} characters`);
  const place = q === "" ? null : await pageOfId(c, q);
  if (place !== null) return c.redirect(pathIn(c, place), 303);
  const groups = q === "" ? [] : (await readGroups(c, q)).filter(({ found }) => found.length > 0);
  return page(
    c,
    { title: q === "" ? "Search" : `Results for “${q}”` },
    <>
      {groups.map(({ title, icon, found }) => (
        <section class="card">
          <h2>
            <Icon name={icon} /> {title}
          </h2>
          <ul class="results">
            {found.map((each) => (
              <li>{each}</li>
            ))}
          </ul>
          {found.length === SHOWN_FOUND_MAX && <p class="soft">The first {SHOWN_FOUND_MAX}. Type more to narrow it.</p>}
        </section>
      ))}
      {groups.length === 0 && (
        <section class="card">
          <Empty icon="search" title={q === "" ? "Search this application" : "Nothing found"}>
            Users, people, payments, references, usage events, packs and keys of this mode.
          </Empty>
        </section>
      )}
      {q !== "" && (
        <p>
          <AppLink to="users" fields={{ userId: q }}>
            Open the user “{q}”
          </AppLink>{" "}
          ·{" "}
          <AppLink to="people" fields={{ distinctId: q }}>
            Open the person “{q}”
          </AppLink>
        </p>
      )}
      <p class="soft">
        Ids are found by their beginning, and e-mail addresses exactly, however many there are. A part of an id is found
        among the {amountText(SEARCHED_IDS_MAX)} users and people of the latest activity, and packs and keys among{" "}
        {SEARCH_LISTED_MAX}.
      </p>
    </>,
  );
}

export const searchRoutes = createDashboardRoutes().get("/search", searchPage);

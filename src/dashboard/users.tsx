import { doubleOf, UNITS } from "../books/amounts/amount.ts";
import { findReferences } from "../books/credits/find-entries.ts";
import { type FoundUser, findUsers, recentUsers } from "../books/credits/users.ts";
import { readUsageEvent } from "../books/usage/describe-events.ts";
import { PurserError } from "../errors.ts";
import { numberText } from "../lib/json.ts";
import type { TenantCtx } from "../runtime.ts";
import { AppLink, LinkButton, pathIn } from "./app-link.tsx";
import {
  balanceColumn,
  fieldColumn,
  menuColumn,
  remainingColumn,
  tagColumn,
  textColumn,
  timeColumn,
  userColumn,
} from "./columns.tsx";
import { Amounts, Card } from "./components.tsx";
import { exists, pageOfId } from "./find.ts";
import { createDashboardRoutes, type Form, type PageContext, textField } from "./form.ts";
import { queryString } from "./format.tsx";
import { type Identity, readIdentities } from "./identities.ts";
import { EventLink, IdentityText, ReferenceLink, UserLink } from "./links.tsx";
import { RowsTable } from "./list.tsx";
import type { ListColumn } from "./read-list.ts";
import { listPage, listRoutes, type Resource } from "./resource.tsx";
import { numberHead } from "./table.tsx";
import { userPage } from "./user.tsx";

const ROWS = 50;

/** Returns the text of the search. A copied id often ends with a space. A user whose id really ends with one is a link away. */
function searchText(form: Form): string | undefined {
  const q = textField(form, "q")?.trim() || undefined;
  if (q !== undefined && [...q].length > 500) throw new PurserError("invalid_request", "is too long", { param: "q" });
  return q;
}

/** More of a search for users, which is read with its first page. */
interface FoundMore {
  /** Whether the list has the users of the latest activity first. */
  readonly isRecent?: boolean;
}

async function usersPage(c: PageContext) {
  const q = searchText(c.req.query());
  if (q === undefined) return listPage(c, usersList);
  const place = await pageOfId(c, q);
  if (place !== null) return c.redirect(pathIn(c, place), 303);
  const isEvent = await exists(() => readUsageEvent(c.var.ctx, q));
  const referenced = await findReferences(c.var.ctx, q, ROWS);
  const open = `${pathIn(c, "users")}${queryString({ userId: q })}`;
  const { users } = await findUsers(c.var.ctx, { limit: 2, cursor: undefined, beginning: q });
  const isAlone = users.length === 0 || (users.length === 1 && users[0]?.userId === q);
  if (isAlone && !isEvent && referenced.length === 0 && c.req.query("cursor") === undefined) {
    return c.redirect(open, 303);
  }
  return listPage(c, {
    ...usersList,
    above: () => (
      <>
        <p class="card">
          {isEvent && (
            <>
              A usage event has this id: <EventLink id={q} />.{" "}
            </>
          )}
          <a href={open}>Open the user “{q}”</a>, whether or not there is one.
        </p>
        {referenced.length > 0 && <ReferenceList balances={referenced} />}
      </>
    ),
  });
}

/** Shows balances of any user whose reference was searched for. */
const ReferenceList = ({ balances }: { readonly balances: Awaited<ReturnType<typeof findReferences>> }) => (
  <Card title="Balances with this reference">
    <RowsTable
      label="References"
      csv="references"
      columns={[
        fieldColumn("externalRef", "Reference", ({ externalRef }) => <ReferenceLink reference={externalRef ?? ""} />),
        userColumn("userId", "User"),
        balanceColumn,
        textColumn("packName", "Pack"),
        remainingColumn("Remaining"),
        tagColumn("status", "Status"),
        timeColumn("grantedAt", "Granted"),
      ]}
      rows={balances}
      empty=""
    />
    {balances.length === ROWS && <p class="soft">Only the first {ROWS} are shown: type more of the reference.</p>}
  </Card>
);

const amountIn = ({ remaining }: FoundUser, unit: string) => remaining.find((each) => each.unit === unit)?.amount;

type ListedUser = FoundUser & { readonly identity: Identity | null };

async function withIdentities(ctx: TenantCtx, users: readonly FoundUser[]): Promise<readonly ListedUser[]> {
  const ids = users.map(({ userId }) => userId);
  const identities = await readIdentities(ctx, ids);
  return users.map((user) => ({ ...user, identity: identities.get(user.userId) ?? null }));
}

const USER_COLUMNS: readonly ListColumn<ListedUser>[] = [
  fieldColumn("userId", "User", ({ userId, identity }) => (
    <>
      <UserLink id={userId} /> <IdentityText identity={identity} />
    </>
  )),
  { name: "name", value: ({ identity }) => identity?.name ?? null },
  { name: "email", value: ({ identity }) => identity?.email ?? null },
  {
    name: "remaining",
    head: numberHead("Can be spent now"),
    cell: (user) => (
      <>
        <Amounts of={user.remaining} />
        {user.isPartial ? <div class="soft">of the first balances; the user's page has all</div> : null}
      </>
    ),
    sortKey: (user) =>
      UNITS.map((unit) => {
        const amount = amountIn(user, unit);
        return amount === undefined ? null : doubleOf(amount);
      }),
  },
  ...UNITS.map((unit) => ({ name: unit, value: (user: FoundUser) => numberText(amountIn(user, unit)) })),
  {
    name: "balances",
    head: numberHead("Balances"),
    cell: (user) => (
      <span class="num">
        {user.isPartial ? "more than " : ""}
        {user.balances}
      </span>
    ),
    value: ({ balances }) => balances,
  },
  { name: "isPartial", value: ({ isPartial }) => String(isPartial) },
  timeColumn("lastEntryAt", "Last entry", "none"),
  menuColumn(
    ({ userId }) => userId,
    ({ userId }) => [
      [`users/grant${queryString({ userId })}`, "Grant credits"],
      [`people${queryString({ distinctId: userId })}`, "View person"],
      [`users/verify${queryString({ userId })}`, "Verify the ledger"],
    ],
  ),
];

/**
 * The list of users: by default those with the latest activity first, where that is known; otherwise those that match the search
 * or the list's cursor, by id.
 */
const usersList: Resource<ListedUser, FoundMore> = {
  path: "users",
  title: "Users",
  section: "users",
  columns: USER_COLUMNS,
  filters: [
    { name: "q", label: "User id", placeholder: "Or its beginning, a reference, or another id" },
    { name: "by" },
  ],
  read: (c, form) => {
    const { ctx } = c.var;
    const q = searchText(form);
    let isRecent = q === undefined && form.by !== "id";
    return async (page) => {
      if (isRecent) {
        const { users, nextCursor } = await recentUsers(ctx, page);
        if (users.length > 0 || page.cursor !== undefined) {
          return { rows: await withIdentities(ctx, users), nextCursor, isRecent };
        }
        isRecent = false;
      }
      const { users, nextCursor } = await findUsers(ctx, { ...page, beginning: q ?? "" });
      return { rows: await withIdentities(ctx, users), nextCursor };
    };
  },
  kept: (form, first) =>
    searchText(form) !== undefined || first === null || first.isRecent === true ? {} : { by: "id" },
  empty: (form) =>
    searchText(form) === undefined
      ? "No users yet. A user appears with the first grant or usage event."
      : `No user's id begins with “${searchText(form)}”.`,
  words: ["First users", "More users"],
  foot: (_, { first, list }) =>
    first?.isRecent === true && list.sorted === null ? (
      <p class="soft">
        The latest activity first, by the day. Approximate. <AppLink to="users?by=id">All users, by id</AppLink>
      </p>
    ) : null,
  actions: () => (
    <>
      <LinkButton to="users/bulk-grant" text="Grant to many users" />
      <LinkButton to="recurring" text="Recurring grants" />
      <LinkButton to="verify" text="Verify the ledgers" />
    </>
  ),
};

export const usersRoutes = createDashboardRoutes()
  .get("/users", (c, next) => (c.req.query("userId") ? userPage(c) : c.req.query("q") ? usersPage(c) : next()))
  .route("/", listRoutes(usersList));

import type { Context } from "hono";
import { doubleOf, UNITS } from "../books/amounts/amount.ts";
import { findReferences } from "../books/credits/find-entries.ts";
import { type FoundUser, findUsers, recentUsers } from "../books/credits/users.ts";
import { readUsageEvent } from "../books/usage/describe-events.ts";
import { PurserError } from "../errors.ts";
import { numberText } from "../lib/json.ts";
import { Amounts, numberHead, RowMenu, Table, Tag } from "./components.tsx";
import { exists, pageOfId } from "./find.ts";
import { createDashboardRoutes, type DashboardEnv, type Form, textField } from "./form.ts";
import { amountText, queryString, Time } from "./format.tsx";
import { page, pathIn } from "./layout.tsx";
import { BalanceLink, EventLink, ReferenceLink, UserLink } from "./links.tsx";
import { csvFile, type ListColumn, type ListPage, ListTable, readShownList } from "./list.tsx";
import { FindUser, userPage } from "./user.tsx";

const ROWS = 50;

/**
 * Returns the reader of the list of users: by default those with the latest activity first, where that is known; otherwise those
 * that match the search or the list's cursor, by id.
 */
function userReader(c: Context<DashboardEnv>, q: string | undefined) {
  const { ctx } = c.var;
  let isRecent = q === undefined && c.req.query("by") !== "id";
  return {
    isRecent: () => isRecent,
    read: async (page: ListPage) => {
      if (isRecent) {
        const { users, nextCursor } = await recentUsers(ctx, page);
        if (users.length > 0 || page.cursor !== undefined) return { rows: users, nextCursor };
        isRecent = false;
      }
      const { users, nextCursor } = await findUsers(ctx, { ...page, beginning: q ?? "" });
      return { rows: users, nextCursor };
    },
  };
}

/** Returns the text of the search. A copied id often ends with a space. A user whose id really ends with one is a link away. */
function searchText(form: Form): string | undefined {
  const q = textField(form, "q")?.trim() || undefined;
  if (q !== undefined && [...q].length > 500) throw new PurserError("invalid_request", "is too long", { param: "q" });
  return q;
}

async function usersPage(c: Context<DashboardEnv>) {
  const form = c.req.query();
  const q = searchText(form);
  const place = q === undefined ? null : await pageOfId(c, q);
  if (place !== null) return c.redirect(pathIn(c, place), 303);
  const cursor = textField(form, "cursor");
  const reader = userReader(c, q);
  const list = await readShownList(form, USER_COLUMNS, reader.read);
  const { rows: users } = list;
  const isRecent = reader.isRecent();
  const isEvent = q !== undefined && (await exists(() => readUsageEvent(c.var.ctx, q)));
  const referenced = q === undefined ? [] : await findReferences(c.var.ctx, q, ROWS);
  const isAlone = users.length === 0 || (users.length === 1 && users[0]?.userId === q);
  if (q !== undefined && isAlone && !isEvent && referenced.length === 0 && cursor === undefined) {
    return c.redirect(`${pathIn(c, "users")}${queryString({ userId: q })}`, 303);
  }
  const by = isRecent || q !== undefined ? undefined : "id";
  const byId = `${pathIn(c, "users")}${queryString({ by: "id" })}`;
  return page(
    c,
    { title: "Users", section: "users" },
    <>
      <FindUser c={c} value={q} />
      {q !== undefined && (
        <p class="card">
          {isEvent && (
            <>
              A usage event has this id: <EventLink c={c} id={q} />.{" "}
            </>
          )}
          <a href={`${pathIn(c, "users")}${queryString({ userId: q })}`}>Open the user “{q}”</a>, whether or not there
          is one.
        </p>
      )}
      {referenced.length > 0 && <ReferenceList c={c} balances={referenced} />}
      <section class="card">
        {isRecent && list.sorted === null && (
          <p class="soft">
            The latest activity first, by the day. Approximate. <a href={byId}>All users, by id</a>
          </p>
        )}
        <ListTable
          label="Users"
          columns={USER_COLUMNS}
          list={list}
          view={c}
          hrefOf={(fields) => `${pathIn(c, "users")}${queryString({ q, by, ...fields })}`}
          csvHrefOf={(fields) => `${pathIn(c, "users.csv")}${queryString({ q, by, ...fields })}`}
          words={["First users", "More users"]}
          empty={
            q === undefined
              ? "No users yet. A user appears with the first grant or usage event."
              : `No user's id begins with “${q}”.`
          }
        />
      </section>
      <p class="soft">
        <a href={pathIn(c, "users/bulk-grant")}>Grant to many users</a> ·{" "}
        <a href={pathIn(c, "recurring")}>Recurring grants of all users</a> ·{" "}
        <a href={pathIn(c, "verify")}>Verify the ledgers of all users</a>
      </p>
    </>,
  );
}

interface ReferencesProps {
  readonly c: Context<DashboardEnv>;
  readonly balances: Awaited<ReturnType<typeof findReferences>>;
}

/** Shows balances of any user whose reference was searched for. */
const ReferenceList = ({ c, balances }: ReferencesProps) => (
  <section class="card">
    <h2>Balances with this reference</h2>
    <Table
      label="References"
      csv="references"
      head={["Reference", "User", "Balance", "Pack", numberHead("Remaining"), "Status", "Granted"]}
      empty=""
      rows={balances.map((balance) => [
        <ReferenceLink c={c} reference={balance.externalRef ?? ""} />,
        <UserLink c={c} id={balance.userId} />,
        <BalanceLink c={c} id={balance.balanceId} />,
        balance.packName,
        <span class="num">
          {amountText(balance.remaining)} of {amountText(balance.initial)} {balance.unit}
        </span>,
        <Tag kind={balance.status}>{balance.status}</Tag>,
        <Time at={balance.grantedAt} />,
      ])}
    />
    {balances.length === ROWS && <p class="soft">Only the first {ROWS} are shown: type more of the reference.</p>}
  </section>
);

const amountIn = ({ remaining }: FoundUser, unit: string) => remaining.find((each) => each.unit === unit)?.amount;

const USER_COLUMNS: readonly ListColumn<FoundUser, Context<DashboardEnv>>[] = [
  {
    name: "userId",
    head: "User",
    cell: ({ userId }, c) => <UserLink c={c} id={userId} />,
    value: ({ userId }) => userId,
  },
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
  {
    name: "lastEntryAt",
    head: "Last entry",
    cell: (user) => <Time at={user.lastEntryAt} otherwise="none" />,
    value: ({ lastEntryAt }) => lastEntryAt,
  },
  {
    name: "actions",
    head: "",
    cell: ({ userId }, c) => (
      <RowMenu label={`Actions for ${userId}`}>
        <a href={`${pathIn(c, "users/grant")}${queryString({ userId })}`}>Grant credits</a>
        <a href={`${pathIn(c, "people")}${queryString({ distinctId: userId })}`}>View person</a>
        <a href={`${pathIn(c, "users/verify")}${queryString({ userId })}`}>Verify the ledger</a>
      </RowMenu>
    ),
  },
];

export const usersRoutes = createDashboardRoutes()
  .get("/users", (c) => (c.req.query("userId") ? userPage(c) : usersPage(c)))
  .get("/users.csv", (c) => csvFile(c, "users", USER_COLUMNS, userReader(c, searchText(c.req.query())).read));

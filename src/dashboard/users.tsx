import type { Context } from "hono";
import { findReferences } from "../books/credits/history.ts";
import { readBalance } from "../books/credits/revoke.ts";
import { type FoundUser, findUsers, recentUsers } from "../books/credits/users.ts";
import { readReservation } from "../books/usage/list-reservations.ts";
import { readUsageEvent } from "../books/usage/read-event.ts";
import { PurserError } from "../errors.ts";
import { findPayment } from "../payments/list.ts";
import { Amounts, numbers, Pager, RowMenu, Table, Tag } from "./components.tsx";
import { catchRefusal, createDashboardRoutes, type DashboardEnv, textField } from "./form.ts";
import { amountText, queryString, Time } from "./format.tsx";
import { page, pathIn } from "./layout.tsx";
import { BalanceLink, EventLink, UserLink } from "./people-list.tsx";
import { FindUser, userPage } from "./user.tsx";

const ROWS = 50;

/** Returns whether an object exists. Throws errors other than `not_found`. */
export async function exists(read: () => Promise<unknown>): Promise<boolean> {
  const { refusal } = await catchRefusal(read);
  if (refusal !== undefined && !/not_found$/.test(refusal.code)) throw refusal;
  return refusal === undefined;
}

/** Returns the page of the only object with this id. Null when a search is needed. */
export async function pageOfId(c: Context<DashboardEnv>, id: string): Promise<string | null> {
  const { ctx } = c.var;
  if (id.startsWith("crb_") && (await exists(() => readBalance(ctx, id)))) {
    return `users/balance${queryString({ balanceId: id })}`;
  }
  const { appId, mode } = ctx.environment;
  if (/^(pi|cs|in|ch)_/.test(id) && (await exists(() => findPayment(c.var.root, appId, mode, id)))) {
    return `payments/${encodeURIComponent(id)}`;
  }
  const isReservation = id.startsWith("res_") && (await exists(() => readReservation(ctx, id)));
  return isReservation ? `users/reservation${queryString({ reservationId: id })}` : null;
}

/**
 * Returns users: by default those with the latest activity first, where that is known; otherwise those that match the search or
 * the list's cursor.
 */
async function readUsers(c: Context<DashboardEnv>, q: string | undefined, cursor: string | undefined) {
  const { ctx } = c.var;
  if (q === undefined && c.req.query("by") !== "id") {
    const recent = await recentUsers(ctx, { limit: ROWS, cursor });
    if (recent.users.length > 0 || cursor !== undefined) return { ...recent, isRecent: true };
  }
  return { ...(await findUsers(ctx, { beginning: q ?? "", limit: ROWS, cursor })), isRecent: false };
}

async function usersPage(c: Context<DashboardEnv>) {
  const form = c.req.query();
  // A copied id often ends with a space. A user whose id really ends with one is a link away.
  const q = textField(form, "q")?.trim() || undefined;
  if (q !== undefined && [...q].length > 500) throw new PurserError("invalid_request", "is too long", { param: "q" });
  const place = q === undefined ? null : await pageOfId(c, q);
  if (place !== null) return c.redirect(pathIn(c, place), 303);
  const cursor = textField(form, "cursor");
  const { users, nextCursor, isRecent } = await readUsers(c, q, cursor);
  const isEvent = q !== undefined && (await exists(() => readUsageEvent(c.var.ctx, q)));
  const referenced = q === undefined ? [] : await findReferences(c.var.ctx, q, ROWS);
  const isAlone = users.length === 0 || (users.length === 1 && users[0]?.userId === q);
  if (q !== undefined && isAlone && !isEvent && referenced.length === 0 && cursor === undefined) {
    return c.redirect(`${pathIn(c, "users")}${queryString({ userId: q })}`, 303);
  }
  const by = isRecent || q !== undefined ? undefined : "id";
  const link = (more: { cursor?: string }) => `${pathIn(c, "users")}${queryString({ q, by, ...more })}`;
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
        {isRecent && (
          <p class="soft">
            The latest activity first, by the day. Approximate. <a href={byId}>All users, by id</a>
          </p>
        )}
        <UserTable
          c={c}
          users={users}
          empty={
            q === undefined
              ? "No users here yet. A user is there from the first grant or usage event on."
              : `No user's id begins with “${q}”.`
          }
        />
        <Pager
          first={cursor === undefined ? null : link({})}
          next={nextCursor && link({ cursor: nextCursor })}
          words={["First users", "More users"]}
        />
      </section>
      <p class="soft">
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
    <h2>Granted under such a reference</h2>
    <Table
      label="References"
      csv="references"
      head={["Reference", "User", "Balance", "Pack", numbers("Remaining"), "Status", "Granted"]}
      empty=""
      rows={balances.map((balance) => [
        <code>{balance.externalRef}</code>,
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

interface UserTableProps {
  readonly c: Context<DashboardEnv>;
  readonly users: readonly FoundUser[];
  readonly empty: string;
}

const UserTable = ({ c, users, empty }: UserTableProps) => (
  <Table
    label="Users"
    head={["User", numbers("Can be spent now"), numbers("Balances"), "Last entry", ""]}
    csv="users"
    empty={empty}
    rows={users.map((user) => [
      <UserLink c={c} id={user.userId} />,
      <>
        <Amounts of={user.remaining} />
        {user.isPartial ? <div class="soft">of the first balances; the user's page has all</div> : null}
      </>,
      <span class="num">
        {user.isPartial ? "more than " : ""}
        {user.balances}
      </span>,
      <Time at={user.lastEntryAt} otherwise="none" />,
      <RowMenu label={`Actions for ${user.userId}`}>
        <a href={`${pathIn(c, "users/grant")}${queryString({ userId: user.userId })}`}>Grant credits</a>
        <a href={`${pathIn(c, "people")}${queryString({ distinctId: user.userId })}`}>View person</a>
        <a href={`${pathIn(c, "users/verify")}${queryString({ userId: user.userId })}`}>Verify the ledger</a>
      </RowMenu>,
    ])}
  />
);

export const usersRoutes = createDashboardRoutes().get("/users", (c) =>
  c.req.query("userId") ? userPage(c) : usersPage(c),
);

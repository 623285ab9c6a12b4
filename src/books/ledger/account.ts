import { and, eq, type SQL, sql } from "drizzle-orm";
import type { StatementSource } from "../../db/prepare.ts";
import {
  asInteger,
  drizzle,
  fields,
  hasRow,
  insertFrom,
  query,
  type RowOfBuilt,
  scalar,
  type ValueOf,
} from "../../db/query.ts";
import { accounts, creditBalances, recurringGrants, reservations } from "../../db/schema.ts";
import { hasSettingsSnapshot } from "../../db/settings-snapshot.ts";
import type { Statement } from "../../db/sql.ts";
import { hasReservationId } from "../../db/usage-ids.ts";
import { assert } from "../../errors.ts";
import type { TenantCtx } from "../../runtime.ts";

/** Identifies a user: by id, by a reservation, recurring grant or balance of theirs, or by the account's integer. */
export type User =
  | { readonly userId: string }
  /** `forms`: the forms in which its id may be stored (db/usage-ids.ts), as JSON. */
  | { readonly reservationId: string; readonly forms: string }
  | { readonly recurringId: string }
  | { readonly balanceId: string }
  | { readonly accountId: number };

/** The values that identify a user, always within the environment of the request. */
export type OfUser = { environmentId: number; user: string | number };

/** Returns a condition: a row of `accounts` has a row of `creditBalances`, in the environment of the request. */
export const isAccountOfBalance = (value: ValueOf<{ environmentId: number }>) =>
  and(eq(accounts.id, creditBalances.accountId), eq(accounts.environmentId, value("environmentId")));

/** Returns SQL for the integer of the account that meets a condition. */
const accountWhere = (condition: (value: ValueOf<OfUser>) => SQL | undefined) => (value: ValueOf<OfUser>) =>
  scalar(
    drizzle
      .select(fields(accounts, "id"))
      .from(accounts)
      .where(and(condition(value), eq(accounts.environmentId, value("environmentId")))),
  );

/** The account's integer, for each way to identify its user. */
const accountOf = {
  userId: accountWhere((value) => eq(accounts.userId, value("user"))),
  reservationId: (value: ValueOf<OfUser>) =>
    scalar(
      drizzle
        .select(fields(reservations, "accountId"))
        .from(reservations)
        .where(hasReservationId(value, value("user"))),
    ),
  recurringId: (value: ValueOf<OfUser>) =>
    scalar(
      drizzle
        .select(fields(recurringGrants, "accountId"))
        .from(recurringGrants)
        .where(and(eq(recurringGrants.environmentId, value("environmentId")), eq(recurringGrants.id, value("user")))),
    ),
  balanceId: (value: ValueOf<OfUser>) =>
    scalar(
      drizzle
        .select(fields(accounts, "id"))
        .from(creditBalances)
        .crossJoin(accounts)
        .where(and(eq(creditBalances.id, value("user")), isAccountOfBalance(value))),
    ),
  accountId: accountWhere((value) => eq(accounts.id, value("user"))),
};

/** A query about one user's account, for each way to identify the user. `build` receives the account's integer. */
export function accountQuery<Values, Built extends StatementSource>(
  build: (value: ValueOf<Values & OfUser>, account: SQL<number | null>) => Built,
): (
  ctx: Pick<TenantCtx, "environment">,
  user: User,
  values: Omit<Values, keyof OfUser>,
) => Statement<RowOfBuilt<Built>> {
  const queryBy = (account: (value: ValueOf<OfUser>) => SQL<number | null>) =>
    query((value: ValueOf<Values & OfUser>) => build(value, account(value)));
  const statements: { [Kind in keyof typeof accountOf]?: ReturnType<typeof queryBy> } = {};
  return (ctx, user, values) => {
    const [kind, name] = identifyAccount(user);
    // The values of the query together with those of the account are all values of the statement.
    statements[kind] ??= queryBy(accountOf[kind]);
    return statements[kind]({ ...values, environmentId: ctx.environment.id, user: name } as Values & OfUser);
  };
}

function identifyAccount(user: User): [kind: keyof typeof accountOf, name: string | number] {
  if ("userId" in user) return ["userId", user.userId];
  if ("reservationId" in user) return ["reservationId", user.forms];
  if ("recurringId" in user) return ["recurringId", user.recurringId];
  if ("balanceId" in user) return ["balanceId", user.balanceId];
  return ["accountId", user.accountId];
}

/** The account, the time and the author of a write, which each of its statements needs. */
export type WriteContext = {
  readonly environmentId: number;
  readonly userId: string;
  /** Null if the user has no account yet. Then the write creates one first. */
  readonly accountId: number | null;
  readonly nowMs: number;
  /** The author of the write (C16). */
  readonly by: string;
};

/** Returns only these values from an object that may have others. */
export function writingValues({ environmentId, userId, accountId, nowMs, by }: WriteContext): WriteContext {
  return { environmentId, userId, accountId, nowMs, by };
}

/** The name of a caller in the ledger: a key's id, `admin`, `stripe` or `cron`. */
export function readActor({ caller }: Pick<TenantCtx, "caller">): string {
  assert(caller.kind !== "link", "a download link writes no credits");
  return "keyId" in caller ? caller.keyId : caller.kind;
}

const accountOfUser = (value: ValueOf<Pick<WriteContext, "environmentId" | "userId">>) =>
  and(eq(accounts.environmentId, value("environmentId")), eq(accounts.userId, value("userId")));

/** Returns SQL for the integer of a user's account. Null when there is none. */
export const accountIdOfUser = (value: ValueOf<Pick<WriteContext, "environmentId" | "userId">>) =>
  scalar(drizzle.select(fields(accounts, "id")).from(accounts).where(accountOfUser(value)));

/** Returns SQL for the account's integer in a write. */
export const accountOfWrite = (value: ValueOf<WriteContext>) =>
  sql<number>`coalesce(${asInteger(value("accountId"))}, ${accountIdOfUser(value)})`;

/**
 * Creates the user's account if there is none. Repeated or concurrent calls create one account. The statement is also a guard: if the
 * environment's settings snapshot no longer equals `settingsSnapshot`, it inserts an account without an environment, which aborts the batch with
 * `guard_environment`.
 */
export const createAccount = query((value: ValueOf<WriteContext & { settingsSnapshot: string | null }>) =>
  insertFrom(
    accounts,
    { environmentId: sql`iif(guard.is_same, ${asInteger(value("environmentId"))}, NULL)`, userId: value("userId") },
    sql`FROM (SELECT ${hasSettingsSnapshot(value)} AS is_same) AS guard
      WHERE NOT guard.is_same OR NOT ${hasRow(accounts, accountOfUser(value))}`,
  ),
);

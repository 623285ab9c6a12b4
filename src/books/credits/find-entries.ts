import { and, eq, gte, inArray, isNotNull, lt, type SQL, sql } from "drizzle-orm";
import { boundLimit, computed, drizzle, fields, query, type ValueOf } from "../../db/query.ts";
import {
  accounts,
  balanceExpiries,
  creditBalances,
  creditLedger,
  type Minor,
  reservations,
  usageEvents,
} from "../../db/schema.ts";
import { all, batch, type StatementRow } from "../../db/sql.ts";
import { invalidCursor } from "../../errors.ts";
import { cutPage, decodeTextCursor, encodeTextCursor } from "../../lib/cursor.ts";
import { DAY_MS } from "../../lib/time.ts";
import type { TenantCtx } from "../../runtime.ts";
import {
  isBalanceOfEntry,
  isEventOfEntry,
  isReservationOfEntry,
  reservationIdOfEntry,
} from "../ledger/insert-entries.ts";
import { readFirstSeqs } from "./first-seq.ts";
import { type ShownBalance, showBalance, shownBalanceFields } from "./read-balance.ts";
import { rangeOf } from "./users.ts";

/** How many users, and how many of their entries, one page examines. */
export const EXAMINED_USERS_MAX = 50;
export const EXAMINED_ENTRIES_MAX = 500;

/** The figures of the overview that are sums of ledger entries. */
export type EntriesOf = "granted" | "spent" | "refunded";

export interface EntryFilters {
  /** The range begins at `fromMs` and ends before `toMs`. */
  readonly fromMs: number;
  readonly toMs: number;
  readonly unit?: string | undefined;
  readonly packId?: string | undefined;
}

/** The start of a page: the user by day and account, and the seq of the first entry. */
interface EntriesPosition {
  readonly day: number;
  readonly accountId: number;
  readonly seq: number;
}

type UserRow = Omit<EntriesPosition, "seq">;

const selectUsersWithEntries = query((value: ValueOf<{ environmentId: number; limit: number } & UserRow>) => {
  const { environmentId, lastActiveDay, id } = accounts;
  return drizzle
    .select(computed({ day: sql<number>`${lastActiveDay}`, accountId: sql<number>`${id}` }))
    .from(sql`${accounts} INDEXED BY accounts_active`)
    .where(
      and(
        eq(environmentId, value("environmentId")),
        isNotNull(lastActiveDay),
        sql`(${lastActiveDay}, ${id}) >= (${value("day")}, ${value("accountId")})`,
      ),
    )
    .orderBy(lastActiveDay, id)
    .limit(boundLimit(value("limit")));
});

const selectFirstSeqs = query((value: ValueOf<{ accounts: string; atMs: number }>) =>
  readFirstSeqs(sql`SELECT value AS account FROM json_each(${value("accounts")})`, value),
);

type Filters = { environmentId: number; ranges: string; unit: string; packId: string };
const selectEntries = (isOfKind: () => SQL | undefined) =>
  query((value: ValueOf<Filters>) => {
    const { accountId, seq } = creditLedger;
    const { unit, packId } = creditBalances;
    return drizzle
      .select({
        ...fields(accounts, "userId"),
        ...fields(creditLedger, "seq", "deltaMinor", "note", "occurredAtMs"),
        ...computed({ eventId: sql<string | null>`${usageEvents.eventId}`, reservationId: reservationIdOfEntry() }),
        ...fields(creditBalances, { balanceId: "id", packId: "packId", packName: "packName", unit: "unit" }),
      })
      .from(sql`json_each(${value("ranges")}) AS span`)
      .crossJoin(accounts)
      .crossJoin(creditLedger)
      .crossJoin(creditBalances)
      .leftJoin(usageEvents, isEventOfEntry())
      .leftJoin(reservations, isReservationOfEntry())
      .where(
        and(
          sql`${accounts.id} = span.value ->> 0`,
          eq(accounts.environmentId, value("environmentId")),
          eq(accountId, accounts.id),
          isBalanceOfEntry(),
          sql`${seq} >= span.value ->> 1 AND ${seq} < span.value ->> 2`,
          sql`(${value("unit")} = '' OR ${unit} = ${value("unit")})`,
          sql`(${value("packId")} = '' OR ${packId} = ${value("packId")})`,
          isOfKind(),
        ),
      )
      .orderBy(sql`span.key`, seq);
  });
const entryStatements = {
  granted: selectEntries(() => eq(creditLedger.reason, "grant")),
  spent: selectEntries(() => eq(creditLedger.reason, "event_committed")),
  refunded: selectEntries(() =>
    and(inArray(creditLedger.cause, ["refund", "payment_taken"]), lt(creditLedger.deltaMinor, 0 as Minor)),
  ),
};
export type FoundEntry = StatementRow<typeof entryStatements.granted>;

/**
 * Returns the ledger entries of all users that add up to a figure, user by user. A page may be short or empty although other pages
 * follow. Entries have no index by time, so the search examines users who were active in the range or later, if an isolate has
 * reported it (db/count-activity.ts). Throws `invalid_request` for a cursor of another list.
 */
export async function findEntries(
  ctx: TenantCtx,
  kind: EntriesOf,
  filters: EntryFilters,
  cursor: string | undefined,
): Promise<{ readonly entries: readonly FoundEntry[]; readonly nextCursor: string | null }> {
  const { fromMs, toMs, unit = "", packId = "" } = filters;
  const environmentId = ctx.environment.id;
  const scope = ["entries of all", environmentId, kind, fromMs, toMs, unit, packId];
  const place = readEntriesPosition(cursor, scope, fromMs);
  const found = await all(ctx.db, selectUsersWithEntries({ environmentId, ...place, limit: EXAMINED_USERS_MAX + 1 }));
  const users = found.slice(0, EXAMINED_USERS_MAX);
  const accountIds = JSON.stringify(users.map(({ accountId }) => accountId));
  const [firsts, ends] = await batch(ctx.db, [
    selectFirstSeqs({ accounts: accountIds, atMs: fromMs }),
    selectFirstSeqs({ accounts: accountIds, atMs: toMs }),
  ]);
  const seqs = (rows: typeof firsts) => new Map(rows.map((row) => [row.accountId, row.seq]));
  const { ranges, next } = takeRanges(users, place, seqs(firsts), seqs(ends));
  const last = next ?? positionAfter(found);
  const entries =
    ranges.length === 0
      ? []
      : await all(ctx.db, entryStatements[kind]({ environmentId, ranges: JSON.stringify(ranges), unit, packId }));
  return { entries, nextCursor: last === null ? null : encodeTextCursor(JSON.stringify(last), scope) };
}

function readEntriesPosition(
  cursor: string | undefined,
  scope: readonly (string | number)[],
  fromMs: number,
): EntriesPosition {
  if (cursor === undefined) return { day: Math.floor(fromMs / DAY_MS), accountId: 0, seq: 1 };
  const text = decodeTextCursor(cursor, scope);
  if (text === null) throw invalidCursor();
  // The cursor's checksum proves that `findEntries` wrote it.
  return JSON.parse(text) as EntriesPosition;
}

/** Returns the first user after a page. */
function positionAfter(found: readonly UserRow[]): EntriesPosition | null {
  const beyond = found[EXAMINED_USERS_MAX];
  return beyond === undefined ? null : { ...beyond, seq: 1 };
}

type Seqs = ReadonlyMap<number, number>;
type Range = readonly [accountId: number, firstSeq: number, endSeq: number];

/** Returns the entries that a page examines, by user, and where the next page continues within a user. */
function takeRanges(users: readonly UserRow[], place: EntriesPosition, firsts: Seqs, ends: Seqs) {
  const ranges: Range[] = [];
  let left = EXAMINED_ENTRIES_MAX;
  for (const { day, accountId } of users) {
    const from = accountId === place.accountId ? place.seq : 1;
    const first = Math.max(from, firsts.get(accountId) ?? 1);
    const end = ends.get(accountId) ?? 1;
    if (first >= end) continue;
    if (left === 0) return { ranges, next: { day, accountId, seq: first } };
    ranges.push([accountId, first, Math.min(end, first + left)]);
    if (end - first > left) return { ranges, next: { day, accountId, seq: first + left } };
    left -= end - first;
  }
  return { ranges, next: null };
}

/** How many balances one page examines. */
export const EXAMINED_EXPIRIES_MAX = 500;

type FoundExpiries = { environmentId: number; expiresAtMs: number; accountId: number; grantSeq: number; toMs: number };
const selectExpiries = query((value: ValueOf<FoundExpiries>) => {
  const { environmentId, expiresAtMs, accountId, grantSeq } = balanceExpiries;
  const page = sql`SELECT * FROM ${balanceExpiries}
    WHERE ${environmentId} = ${value("environmentId")} AND ${expiresAtMs} < ${value("toMs")}
      AND (${expiresAtMs}, ${accountId}, ${grantSeq})
        > (${value("expiresAtMs")}, ${value("accountId")}, ${value("grantSeq")})
    ORDER BY ${expiresAtMs}, ${accountId}, ${grantSeq} LIMIT ${EXAMINED_EXPIRIES_MAX + 1}`;
  return drizzle
    .select({ ...fields(accounts, { userId: "userId", accountId: "id" }), ...shownBalanceFields() })
    .from(sql`(${page}) AS ${balanceExpiries}`)
    .crossJoin(creditBalances)
    .crossJoin(accounts)
    .where(
      and(eq(creditBalances.accountId, accountId), eq(creditBalances.grantSeq, grantSeq), eq(accounts.id, accountId)),
    )
    .orderBy(expiresAtMs, accountId, grantSeq);
});

/**
 * Returns balances of all users that expire in a range of time, the first to expire first. Uses the index of expiries (H6). A page
 * examines `EXAMINED_EXPIRIES_MAX` balances, so it may be short or empty although other pages follow. `includeSpent` includes balances
 * with no remaining amount. Throws `invalid_request` for a cursor of another list.
 */
export async function listExpiries(
  ctx: TenantCtx,
  { fromMs, toMs, unit, packId, includeSpent }: EntryFilters & { readonly includeSpent: boolean },
  cursor: string | undefined,
): Promise<{
  readonly balances: readonly (ShownBalance & { readonly userId: string })[];
  readonly nextCursor: string | null;
}> {
  const environmentId = ctx.environment.id;
  const scope = ["expiries", environmentId, fromMs, toMs, unit ?? "", packId ?? "", includeSpent ? 1 : 0];
  const text = cursor === undefined ? `${fromMs - 1} ${Number.MAX_SAFE_INTEGER} 0` : decodeTextCursor(cursor, scope);
  if (text === null) throw invalidCursor();
  const [expiresAtMs = 0, accountId = 0, grantSeq = 0] = text.split(" ").map(Number);
  const rows = await all(ctx.db, selectExpiries({ environmentId, expiresAtMs, accountId, grantSeq, toMs }));
  const nowMs = ctx.now();
  const { page, last } = cutPage(rows, EXAMINED_EXPIRIES_MAX);
  const wanted = page.filter(
    (row) =>
      (unit === undefined || row.unit === unit) &&
      (packId === undefined || row.packId === packId) &&
      (includeSpent || row.remainingMinor > 0),
  );
  return {
    balances: wanted.map(({ userId, ...row }) => ({ ...showBalance(row, nowMs), userId })),
    nextCursor:
      last === undefined ? null : encodeTextCursor(`${last.expiresAtMs} ${last.accountId} ${last.grantSeq}`, scope),
  };
}

/** How many references one search examines. The index has the references of all environments in the database. */
const SEARCHED_REFERENCES_MAX = 500;

type ReferenceSearch = { environmentId: number; from: string; to: string; limit: number };
const selectMatchingReferences = query((value: ValueOf<ReferenceSearch>) => {
  const { externalRef } = creditBalances;
  const searched = sql`SELECT * FROM ${creditBalances} INDEXED BY credit_balances_external_ref
    WHERE ${and(gte(externalRef, value("from")), lt(externalRef, value("to")))}
    ORDER BY ${externalRef} LIMIT ${SEARCHED_REFERENCES_MAX}`;
  return drizzle
    .select({ ...fields(accounts, "userId"), ...shownBalanceFields() })
    .from(sql`(${searched}) AS ${creditBalances}`)
    .crossJoin(accounts)
    .where(and(eq(accounts.id, creditBalances.accountId), eq(accounts.environmentId, value("environmentId"))))
    .limit(boundLimit(value("limit")));
});

/**
 * Returns the balances of all users that were granted under a reference, or under references with this prefix. The exact reference
 * comes first.
 */
export async function findReferences(
  ctx: TenantCtx,
  beginning: string,
  limit: number,
): Promise<readonly (ShownBalance & { readonly userId: string })[]> {
  const values = { environmentId: ctx.environment.id, ...rangeOf(beginning), limit };
  const nowMs = ctx.now();
  const rows = await all(ctx.db, selectMatchingReferences(values));
  return rows.map(({ userId, ...row }) => ({ ...showBalance(row, nowMs), userId }));
}

import { all, batch, fragment, statement } from "../../db/sql.ts";
import { invalidCursor } from "../../errors.ts";
import { decodeTextCursor, encodeTextCursor } from "../../lib/cursor.ts";
import { DAY_MS } from "../../lib/time.ts";
import type { TenantCtx } from "../../runtime.ts";
import type { LedgerRow } from "../ledger/insert-entries.ts";

/** How many users, and how many of their entries, one page looks at. */
export const lookedAtUsersMax = 50;
export const lookedAtEntriesMax = 500;

/** The figures of the overview that are made up of ledger entries. */
export type EntriesOf = "granted" | "spent" | "refunded";

export interface EntryFilters {
  /** From this moment on, and before the other. */
  readonly fromMs: number;
  readonly toMs: number;
  readonly unit?: string | undefined;
  readonly packId?: string | undefined;
}

type FoundEntry = Pick<
  LedgerRow,
  "seq" | "balanceId" | "packId" | "unit" | "deltaSteps" | "eventId" | "reservationId" | "note" | "occurredAtMs"
> & { readonly userId: string; readonly packName: string | null };

/** Where a page begins: the user by day and account, and the seq of the first entry. */
interface Place {
  readonly day: number;
  readonly accountId: number;
  readonly seq: number;
}

interface UserRow {
  readonly day: number;
  readonly accountId: number;
}

const selectUsers = statement<{ environmentId: number; day: number; accountId: number; limit: number }, UserRow>`
  SELECT last_active_day AS day, id AS accountId FROM accounts INDEXED BY accounts_active
  WHERE environment_id = :environmentId AND last_active_day IS NOT NULL AND (last_active_day, id) >= (:day, :accountId)
  ORDER BY last_active_day, id LIMIT :limit`;

/** The seq of each account's first entry at a moment or later, one above the last when there is none. Found by halves. */
const selectFirstSeqs = statement<{ accounts: string; atMs: number }, { accountId: number; seq: number }>`
  WITH RECURSIVE half (account_id, low, high) AS (
    SELECT value, 1, 1 + coalesce((SELECT seq FROM credit_ledger WHERE account_id = value ORDER BY seq DESC LIMIT 1), 0)
    FROM json_each(:accounts)
    UNION ALL
    SELECT l.account_id, iif(l.occurred_at_ms < :atMs, l.seq + 1, low), iif(l.occurred_at_ms < :atMs, high, l.seq)
    FROM half CROSS JOIN credit_ledger AS l ON l.account_id = half.account_id AND l.seq = (low + high) / 2
    WHERE low < high
  )
  SELECT account_id AS accountId, low AS seq FROM half WHERE low >= high`;

/** A refund has its entries by their seqs. What a payment took back says so, and its balance has the payment's reference. */
const isRefunded = fragment`l.reason = 'admin_adjust' AND l.delta_steps < 0 AND (
  EXISTS (
    SELECT 1 FROM credit_refunds AS r
    WHERE r.account_id = l.account_id AND r.external_ref = b.external_ref AND l.seq BETWEEN r.first_seq AND r.last_seq
  ) OR (l.note GLOB 'Stripe *' AND EXISTS (SELECT 1 FROM payment_grants WHERE balance_id = l.balance_id))
)`;
const KINDS: Readonly<Record<EntriesOf, string>> = {
  granted: "l.reason = 'grant'",
  spent: "l.reason = 'event_committed'",
  refunded: isRefunded,
};

type Values = { environmentId: number; ranges: string; unit: string; packId: string };
const selectEntries = (kind: EntriesOf) => statement<Values, FoundEntry>`
  SELECT a.user_id AS userId, l.seq AS seq, l.balance_id AS balanceId, l.pack_id AS packId, b.pack_name AS packName,
    l.unit AS unit, l.delta_steps AS deltaSteps, l.event_id AS eventId, l.reservation_id AS reservationId, l.note AS note,
    l.occurred_at_ms AS occurredAtMs
  FROM json_each(:ranges) AS range
  CROSS JOIN accounts AS a ON a.id = range.value ->> 0 AND a.environment_id = :environmentId
  CROSS JOIN credit_ledger AS l
    ON l.account_id = a.id AND l.seq >= range.value ->> 1 AND l.seq < range.value ->> 2
  LEFT JOIN credit_balances AS b ON b.id = l.balance_id
  WHERE (:unit = '' OR l.unit = :unit) AND (:packId = '' OR l.pack_id = :packId) AND ${KINDS[kind]}
  ORDER BY range.key, l.seq`;
const statements = {
  granted: selectEntries("granted"),
  spent: selectEntries("spent"),
  refunded: selectEntries("refunded"),
};

/**
 * The ledger entries behind a figure, of all users, user by user: a page looks at the entries of that time of at most
 * `lookedAtUsersMax` users, and at `lookedAtEntriesMax` of them, so it may have few, or none, while others follow. No index has
 * the time of an entry; a user's entries are in its order, and of users the day of their latest activity is known, as far as
 * isolates told it (db/activity/last-seen.ts): those are found who were active in that time or since. Throws `invalid_request` for
 * a cursor of another list.
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
  const place = placeOf(cursor, scope, fromMs);
  const found = await all(ctx.db, selectUsers({ environmentId, ...place, limit: lookedAtUsersMax + 1 }));
  const users = found.slice(0, lookedAtUsersMax);
  const accounts = JSON.stringify(users.map(({ accountId }) => accountId));
  const [firsts, ends] = await batch(ctx.db, [
    selectFirstSeqs({ accounts, atMs: fromMs }),
    selectFirstSeqs({ accounts, atMs: toMs }),
  ]);
  const seqs = (rows: typeof firsts) => new Map(rows.map((row) => [row.accountId, row.seq]));
  const { ranges, next } = takeRanges(users, place, seqs(firsts), seqs(ends));
  const last = next ?? placeAfter(found);
  const entries =
    ranges.length === 0
      ? []
      : await all(ctx.db, statements[kind]({ environmentId, ranges: JSON.stringify(ranges), unit, packId }));
  return { entries, nextCursor: last === null ? null : encodeTextCursor(JSON.stringify(last), scope) };
}

function placeOf(cursor: string | undefined, scope: readonly (string | number)[], fromMs: number): Place {
  if (cursor === undefined) return { day: Math.floor(fromMs / DAY_MS), accountId: 0, seq: 1 };
  const text = decodeTextCursor(cursor, scope);
  if (text === null) throw invalidCursor();
  // The cursor's checksum says that `findEntries` wrote it.
  return JSON.parse(text) as Place;
}

/** The first user beyond a page. */
function placeAfter(found: readonly UserRow[]): Place | null {
  const beyond = found[lookedAtUsersMax];
  return beyond === undefined ? null : { ...beyond, seq: 1 };
}

type Seqs = ReadonlyMap<number, number>;
type Range = readonly [accountId: number, firstSeq: number, endSeq: number];

/** The entries that a page looks at, by user, and where the next one goes on within a user. */
function takeRanges(users: readonly UserRow[], place: Place, firsts: Seqs, ends: Seqs) {
  const ranges: Range[] = [];
  let left = lookedAtEntriesMax;
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

import { databaseIndexOf } from "../db/databases.ts";
import { batch, type Db, type Statement, statement } from "../db/sql.ts";
import { batchBehind } from "../db/tombstones/known.ts";
import { claimCountsSql, type PersonKey } from "../people/person-walk.ts";
import type { Runtime, TenantCtx } from "../runtime.ts";
import { noteMessages } from "../webhooks/outbox.ts";
import { personExported } from "../webhooks/person-exported.ts";
import { type AuditRow, insertAuditRow, type Subject } from "./audit.ts";
import { type BalancePageRow, firstBalances } from "./balances.ts";
import { pageRowsMin } from "./budget.ts";
import { type FirstRow, firstEntries } from "./entries.ts";
import type { ListName } from "./lists.ts";
import { findFewIds, findManyIds, isMore, type PersonIds, readIds } from "./person-ids.ts";
import type { Reading } from "./reading.ts";
import type { EntryRow } from "./span-cursor.ts";

/** A person at one moment: all data that can change, and the last seq and the first rows of each append-only list. */
export interface Snapshot {
  readonly reading: Reading;
  /** Whether the requested id belongs to a person (P3). If not, its events are anonymous and left out. */
  readonly isPerson: boolean;
  readonly isIdentified: boolean;
  /** The requested id, then the ids that it claims, nearest first. */
  readonly ids: PersonIds;
  /** The first rows of the requested id's own lists. */
  readonly first: Readonly<Record<ListName, EntryRow[]>>;
  readonly firstBalances: readonly BalancePageRow[];
}

interface OwnRow {
  readonly environmentId: number;
  /** Null if the id has no record: it never sent an event and is not linked. */
  readonly firstSeenAtMs: number | null;
  readonly isSender: 0 | 1 | null;
  readonly isIdentified: 0 | 1 | null;
  /** Whether another id claims it by a claim that counts. */
  readonly isClaimed: 0 | 1;
}

const findOwn = statement<PersonKey, OwnRow>`
  SELECT e.id AS environmentId, i.first_seen_at_ms AS firstSeenAtMs, i.is_sender AS isSender,
    i.is_identified AS isIdentified, iif(i.claimed_by IS NOT NULL, ${claimCountsSql("i")}, 0) AS isClaimed
  FROM environments AS e LEFT JOIN distinct_ids AS i ON i.environment_id = e.id AND i.distinct_id = :distinctId
  WHERE e.app_id = :appId AND e.mode = :mode`;

/**
 * Writes the audit row of the opening and takes the snapshot, in one batch, which D1 runs alone. Null when there is no such
 * application; then no row is written. "too large" when the data does not fit into one download.
 */
export async function takeSnapshot(
  ctx: Runtime & Pick<TenantCtx, "realNow"> & { readonly db: Db },
  subject: Subject,
  opened: AuditRow,
  guards: readonly Statement[],
): Promise<Snapshot | "too large" | null> {
  const { db } = ctx;
  const { appId, mode, distinctId } = subject;
  const key = { appId, mode, distinctId };
  const [, firstOwn, few, ledger, exports, analytics, metering, consent, firstOwnBalances, told] = await batchBehind(
    db,
    guards,
    [
      insertAuditRow(subject, opened),
      findOwn(key),
      findFewIds(key),
      firstEntries("ledger", key),
      firstEntries("exports", key),
      firstEntries("analytics", key),
      firstEntries("metering", key),
      firstEntries("consent", key),
      firstBalances(key),
      ...personExported(ctx, subject, "opened"),
    ] as const,
  );
  noteMessages({ ...ctx, environment: { database: databaseIndexOf(appId) ?? 0 } }, told);
  // What of a larger person can change is read again, at one moment. The first rows of its lists stay the first.
  const [[own], idRows, balances] = isMore(few)
    ? await batch(db, [findOwn(key), findManyIds(key), firstBalances(key)] as const)
    : [firstOwn, few, firstOwnBalances];
  if (own === undefined) return null;
  const found = readIds(idRows);
  if (found === null) return "too large";
  const isPerson = own.isSender === 1 || own.isClaimed === 1 || found.count > 1;
  const ids = isPerson ? found : withoutAnalytics(found);
  const rowsMin = pageRowsMin(ids.sizes, ids);
  if (rowsMin === null) return "too large";
  const { environmentId, firstSeenAtMs } = own;
  return {
    reading: { db, environmentId, distinctId, firstSeenAtMs, pageRowsMin: rowsMin },
    isPerson,
    isIdentified: own.isIdentified === 1,
    ids,
    first: {
      ledger: entryRows(ledger),
      exports: entryRows(exports),
      analytics: isPerson ? entryRows(analytics) : [],
      metering: entryRows(metering),
      consent: entryRows(consent),
    },
    firstBalances: balances,
  };
}

const entryRows = (rows: readonly FirstRow[]): EntryRow[] => rows.map((row) => [row.seq, row.text, row.position]);

/** Analytics of an id that belongs to no person are anonymous, and never exported (P3). */
function withoutAnalytics(ids: PersonIds): PersonIds {
  return { ...ids, sizes: { ...ids.sizes, analytics: { rows: 0, ids: 0, idBytes: 0 } }, analyticsBytes: 0 };
}

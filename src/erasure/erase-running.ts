import { and, eq, isNull, sql } from "drizzle-orm";
import { countEntries } from "../books/ledger/count-entries.ts";
import { entriesAmong } from "../books/ledger/insert-entries.ts";
import { isConflict } from "../db/attempt.ts";
import { cronIn, hasFailed, mayTry, tryPiece } from "../db/cron-work.ts";
import { boundLimit, computed, drizzle, fields, hasRow, insertFrom, query, type ValueOf } from "../db/query.ts";
import { environments, erasureIds, erasures } from "../db/schema.ts";
import { clockOf, guardSettingsSnapshot, requireClock } from "../db/settings-snapshot.ts";
import { all, batch, type Statement } from "../db/sql.ts";
import { type ErasureSecret, erasureSecrets } from "../db/tombstones.ts";
import { guards } from "../db/views.ts";
import { assert } from "../errors.ts";
import { MINUTE_MS } from "../lib/time.ts";
import type { CronCtx, CronPart, TenantCtx } from "../runtime.ts";
import { messageWrites, noteMessages, wantedMessages } from "../webhooks/outbox.ts";
import { closeBooks, hashReferences, selectErasedHolds, selectOpenAccounts, selectReferences } from "./erase-books.ts";
import { selectMoreIds } from "./ids-to-erase.ts";
import { erasurePageStatements } from "./page.ts";
import { clearUsage, selectEventsOfMembers, selectHoldsOfMembers, type UsageOfMembers } from "./page-of-members.ts";
import { hashPayers, selectErasedPayers } from "./page-of-payments.ts";
import { type ErasureKey, type ErasurePage, isIdOf } from "./page-rows.ts";
import { type ErasureRow, erasureKey, isErasure, selectErasure } from "./receipt.ts";
import { requireTombstoneSecret, startErasingIds } from "./start-erasing-ids.ts";

/** How many pages a cron run processes, over all erasures of a database. */
const ERASURE_PAGES_A_RUN_MAX = 4;
const ERASURE_QUERIES_A_PAGE = 60;
const ROWS_OF_PAGE = 8_000;
const ERASURES_MAX = 200;

const ERASURES = "erasures_not_continued";
const selectRunning = query((value: ValueOf<{ realMs: number; limit: number }>) =>
  drizzle
    .select({
      ...fields(erasures, { erasureId: "id" }),
      ...fields(environments, "id", "appId", "mode"),
      ...computed({ clock: clockOf(), hasFailed: hasFailed(ERASURES, erasures.id) }),
    })
    .from(sql`${erasures} INDEXED BY erasures_running`)
    .crossJoin(environments)
    .where(
      and(
        isNull(erasures.completedAtMs),
        eq(environments.id, erasures.environmentId),
        mayTry(ERASURES, value, erasures.id),
      ),
    )
    .orderBy(erasures.startedAtMs)
    .limit(boundLimit(value("limit"))),
);

/**
 * Continues running erasures (E1) in turn, a page at a time, and starts with another erasure every minute. An erasure that
 * fails is set aside. Returns the errors.
 */
async function eraseRunning(root: CronCtx): Promise<readonly unknown[]> {
  const { db, database, allowance } = root;
  const failures: unknown[] = [];
  const rows = await all(db, selectRunning({ realMs: root.now(), limit: ERASURES_MAX }));
  const turn = rows.length === 0 ? 0 : Math.floor(root.now() / MINUTE_MS) % rows.length;
  const running = [...rows.slice(turn), ...rows.slice(0, turn)];
  for (let pages = 0; pages < ERASURE_PAGES_A_RUN_MAX; pages++) {
    const erasure = running.shift();
    if (erasure === undefined || !allowance.has(ERASURE_QUERIES_A_PAGE)) break;
    const { erasureId, clock, hasFailed, id, appId, mode } = erasure;
    const piece = { part: ERASURES, environmentId: id, subject: erasureId, hasFailed } as const;
    const work = async () => {
      const ctx = cronIn(root, { id, appId, mode, database }, clock);
      const isComplete = await continueErasure(ctx, erasureId, { pages: 1, rows: ROWS_OF_PAGE });
      if (!isComplete) running.push({ ...erasure, hasFailed: 0 });
    };
    failures.push(...(await tryPiece(root, piece, work)));
  }
  return failures;
}

export const erasuresPart: CronPart = {
  code: ERASURES,
  weight: 5,
  queriesOfStep: ERASURE_QUERIES_A_PAGE + 1,
  work: eraseRunning,
};

/** How much of an erasure one invocation may do. A Worker may send 1,000 queries, and a page takes up to 60. */
export interface ErasureBudget {
  readonly pages: number;
  /** The most rows of each kind in a page. */
  readonly rows: number;
}

/** The budget of a request. */
const CALL_BUDGET: ErasureBudget = { pages: 12, rows: 4_000 };

/** One of the ids that an erasure has not finished. */
const selectIdLeft = query((value: ValueOf<ErasureKey>) =>
  drizzle.select(fields(erasureIds, "position")).from(erasureIds).where(isIdOf(value)).limit(1),
);

const setCollected = query((value: ValueOf<ErasureKey>) =>
  drizzle
    .update(erasures)
    .set({ isCollected: 1 })
    .where(and(isErasure(value), eq(erasures.isCollected, 0))),
);

/** Aborts the batch with `guard_people` when the erasure is already complete, so that its message is sent once. */
const guardRunning = query((value: ValueOf<ErasureKey>) => {
  const holds = hasRow(erasures, and(isErasure(value), isNull(erasures.completedAtMs)));
  return insertFrom(guards, { name: sql`'people'`, holds }, sql``);
});

const setCompleted = query((value: ValueOf<ErasureKey & { nowMs: number }>) =>
  drizzle
    .update(erasures)
    .set({ completedAtMs: value("nowMs", erasures.completedAtMs) })
    .where(isErasure(value)),
);

export const selectErasureSettingsSnapshot = query((value: ValueOf<{ environmentId: number }>) =>
  drizzle
    .select(fields(environments, "settingsSnapshot"))
    .from(environments)
    .where(eq(environments.id, value("environmentId"))),
);

/** Continues an erasure until it is complete or the budget is spent. Returns whether it is complete. */
export async function continueErasure(ctx: TenantCtx, erasureId: string, budget = CALL_BUDGET): Promise<boolean> {
  for (let page = 0; page < budget.pages; page++) {
    try {
      if (await erasePage(ctx, { ...erasureKey(ctx, erasureId), rows: budget.rows })) return true;
    } catch (error) {
      // Another call or the cron processed a page at the same time. The next iteration reads the remaining data.
      if (!isConflict(error)) throw error;
    }
  }
  return false;
}

/** Processes one page. Returns whether the erasure is complete. */
async function erasePage(ctx: TenantCtx, page: ErasurePage): Promise<boolean> {
  const [[erasure], [idLeft], [stored], books, holds, ...named] = await batch(ctx.db, [
    selectErasure(page),
    selectIdLeft(page),
    selectErasureSettingsSnapshot(page),
    selectOpenAccounts(page),
    selectErasedHolds(page),
    selectReferences(page),
    selectErasedPayers(page),
    selectEventsOfMembers(page),
    selectHoldsOfMembers(page),
  ] as const);
  assert(erasure !== undefined, "a started erasure has a row");
  if (erasure.completedAtMs !== null) return true;
  const settingsSnapshot = stored?.settingsSnapshot ?? null;
  requireClock(ctx, settingsSnapshot);
  if (erasure.isCollected === 0) {
    await collect(ctx, page, erasure, settingsSnapshot);
    return false;
  }
  if (idLeft === undefined) {
    await complete(ctx, page, settingsSnapshot);
    return true;
  }
  const hashes = named.every((rows) => rows.length === 0)
    ? []
    : await hashNames(ctx, await findErasureSecret(ctx, erasure), named);
  const statements = [...closeBooks(ctx, books, holds), ...hashes, ...erasurePageStatements(page)];
  countEntries(ctx.environment, ctx.now(), entriesAmong(statements, await batch(ctx.db, statements)));
  return false;
}

/** Returns the statements that replace names by keyed hashes. */
async function hashNames(
  ctx: TenantCtx,
  secret: ErasureSecret,
  [references, payers, events, holds]: readonly [
    references: Parameters<typeof hashReferences>[2],
    payers: Parameters<typeof hashPayers>[2],
    events: UsageOfMembers["events"],
    holds: UsageOfMembers["holds"],
  ],
): Promise<Statement[]> {
  const ofPayers = payers.length === 0 ? [] : await hashPayers(ctx, secret, payers);
  const ofUsage = await clearUsage(ctx, secret, { events, holds });
  return [...(await hashReferences(ctx, secret, references)), ...ofPayers, ...ofUsage];
}

/** Completes the erasure, and sends its only message to the endpoints (E6). */
async function complete(ctx: TenantCtx, key: ErasureKey, settingsSnapshot: string | null): Promise<void> {
  const { environmentId, erasureId } = key;
  const data = { erasureId };
  const messages = wantedMessages(ctx, settingsSnapshot, () => [
    { type: "person.erased" as const, subject: null, data },
  ]);
  await batch(ctx.db, [
    guardSettingsSnapshot({ environmentId, settingsSnapshot }),
    guardRunning(key),
    setCompleted({ ...key, nowMs: ctx.realNow() }),
    ...messageWrites(ctx, messages, ctx.now()),
  ]);
  noteMessages(ctx, messages);
}

/** Collects further ids of a person whose ids did not fit into the first batch. */
async function collect(
  ctx: TenantCtx,
  key: ErasureKey,
  erasure: ErasureRow,
  settingsSnapshot: string | null,
): Promise<void> {
  const [rows] = await batch(ctx.db, [selectMoreIds(key)] as const);
  const ids = rows.map(({ distinctId, isVerified }) => ({ distinctId, blocks: isVerified }));
  if (ids.length === 0) {
    await batch(ctx.db, [setCollected(key)]);
    return;
  }
  const secret = await findErasureSecret(ctx, erasure);
  await batch(ctx.db, [
    guardSettingsSnapshot({ environmentId: key.environmentId, settingsSnapshot }),
    ...(await startErasingIds(ctx, secret, erasure.id, ids)),
    ...requireTombstoneSecret(ctx, settingsSnapshot, secret),
  ]);
}

/**
 * Returns the secret with which the erasure started, or the current one when that is lost: otherwise the erasure would never complete,
 * and its tombstones could never be forgotten. Throws `erasure_unavailable` when there is none.
 */
async function findErasureSecret(ctx: TenantCtx, { fingerprint }: ErasureRow): Promise<ErasureSecret> {
  const secrets = await erasureSecrets(ctx);
  return secrets.find((each) => each.fingerprint === fingerprint) ?? secrets[0];
}

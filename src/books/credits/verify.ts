import { and, eq, gt, gte, or, sql } from "drizzle-orm";
import { boundLimit, computed, drizzle, fields, query, type ValueOf } from "../../db/query.ts";
import { accounts } from "../../db/schema.ts";
import { all, batch, type RowsOf, type StatementRow } from "../../db/sql.ts";
import { assert, invalidCursor } from "../../errors.ts";
import { decodeTextCursor, encodeTextCursor } from "../../lib/cursor.ts";
import type { TenantCtx } from "../../runtime.ts";
import type { User } from "../ledger/account.ts";
import { lastSeqOf } from "../ledger/insert-entries.ts";

import { type Flaw, type LedgerStretch, missingEnds, verifyEntries } from "./verify-entries.ts";
import {
  nextPosition,
  readVerifyPosition,
  selectEntriesAt,
  selectStretch,
  VERIFY_START,
  type VerifyPosition,
  writePosition,
} from "./verify-rows.ts";

export interface VerifyOutput {
  readonly userId: string;
  readonly balances: number;
  readonly entries: number;
  readonly isSound: boolean;
  readonly flaws: {
    readonly balanceId: string | null;
    readonly kind: "below_zero" | "chain" | "gap" | "limit" | "owed" | "sum";
    readonly limitId?: string | undefined;
    /** Only for `limit`. Null for the user's counter. */
    readonly memberId?: string | null | undefined;
  }[];
  readonly nextCursor: string | null;
}

export interface VerifyInput {
  readonly userId: string;
  readonly cursor?: string | undefined;
}

export interface VerifyUsersOutput {
  readonly users: VerifyOutput[];
  readonly nextCursor: string | null;
}

/** The most entries of a page of a verification. */
export const VERIFIED_ENTRIES_MAX = 10_000;

/**
 * Recomputes a user's balances from the ledger, one page at a time, and returns the differences (C25). An unknown user has none.
 * Throws `invalid_request` for a cursor of another list.
 */
export async function verifyUser(ctx: TenantCtx, { userId, cursor }: VerifyInput): Promise<VerifyOutput> {
  const position = cursor === undefined ? VERIFY_START : openCursor(ctx, userId, cursor);
  const [verified] = await verifyStretches(ctx, [{ user: { userId }, position }]);
  assert(verified !== undefined, "one stretch is verified");
  return presentPage(ctx, userId, verified);
}

const verifyScopeOf = ({ environment }: TenantCtx, userId: string) => ["verify", environment.id, userId];

function openCursor(ctx: TenantCtx, userId: string, cursor: string): VerifyPosition {
  const text = decodeTextCursor(cursor, verifyScopeOf(ctx, userId));
  if (text === null) throw invalidCursor();
  return readVerifyPosition(text);
}

/** Returns a page of a user's verification in the form of the API. Its cursor continues with this user. */
function presentPage(ctx: TenantCtx, userId: string, { next, ...page }: Verified): VerifyOutput {
  const nextCursor = next === null ? null : encodeTextCursor(writePosition(next), verifyScopeOf(ctx, userId));
  return { userId, ...page, nextCursor };
}

/** A stretch of a user's ledger to verify. */
export interface Stretch {
  readonly user: User;
  readonly position: VerifyPosition;
}

/** Reads stretches of several users in one trip, and verifies them. `next` is null at the end of a user's ledger. */
async function verifyStretches(ctx: TenantCtx, stretches: readonly Stretch[]): Promise<Verified[]> {
  const selected = stretches.map(({ user, position }) => selectStretch(ctx, user, position, endOf(position)));
  const rows: readonly unknown[][] = await batch(ctx.db, selected.flat());
  const size = selected[0]?.length ?? 0;
  return Promise.all(
    stretches.map(async ({ user, position }, index) => {
      // A batch returns its rows in the order of its statements, which have these types.
      const found = rows.slice(index * size, (index + 1) * size) as RowsOf<ReturnType<typeof selectStretch>>;
      const read = readStretch(position, found);
      const missing = missingEnds(read);
      // Empty unless entries were written for the user between two pages.
      const ends = missing.length === 0 ? [] : await all(ctx.db, selectEntriesAt(ctx, user, missing));
      const missingCheckpoints = withBalanceIds(ends, found[2]).map((end) => ({
        ...end,
        total: BigInt(end.afterMinor),
      }));
      const checkpoints = [...missingCheckpoints, ...read.checkpoints];
      return verifyStretch(position, { ...read, checkpoints }, found[4], found[5]);
    }),
  );
}

export type Verified = ReturnType<typeof verifyStretch>;

const endOf = ({ afterSeq }: VerifyPosition): number => afterSeq + VERIFIED_ENTRIES_MAX;

/** Gives entries the ids of their balances. A missing balance is named by the seq that its grant would have. */
function withBalanceIds<Entry extends { readonly grantSeq: number }>(
  entries: readonly Entry[],
  balances: LedgerStretch["balances"],
): (Entry & { readonly balanceId: string })[] {
  const ids = new Map(balances.map(({ grantSeq, id }) => [grantSeq, id]));
  return entries.map((entry) => ({ ...entry, balanceId: ids.get(entry.grantSeq) ?? `seq ${entry.grantSeq}` }));
}

function readStretch(
  position: VerifyPosition,
  [[last], rows, balances, ends]: RowsOf<ReturnType<typeof selectStretch>>,
): LedgerStretch {
  const { afterSeq, fromSeq, toSeq } = position;
  const { lastSeq = 0, lastGrantSeq = 0 } = last ?? {};
  const endSeq = endOf(position);
  const entries = withBalanceIds(rows, balances);
  return {
    ...{ afterSeq, endSeq, lastSeq, entries, balances, fromSeq },
    toSeq: toSeq ?? Number.MAX_SAFE_INTEGER,
    isEnd: endSeq >= Math.max(lastSeq, lastGrantSeq),
    checkpoints: withBalanceIds(ends, balances).map((end) => ({
      ...end,
      total: BigInt(end.afterMinor) + (position.ends.get(end.seq) ?? 0n),
    })),
  };
}

function verifyStretch(
  position: VerifyPosition,
  stretch: LedgerStretch,
  owedTooMuch: readonly { readonly balanceId: string }[],
  miscounted: readonly { readonly limitId: string; readonly memberId: string | null }[],
) {
  const { afterSeq, endSeq, fromSeq, balances, entries } = stretch;
  const { flaws: entryFlaws, checkpoints } = verifyEntries(stretch);
  // The first page checks what is owed now.
  const owedFlaws = fromSeq === 0 ? owedTooMuch.map(({ balanceId }): Flaw => ({ balanceId, kind: "owed" })) : [];
  const limitFlaws =
    fromSeq === 0
      ? miscounted.map(({ limitId, memberId }): Flaw => ({ balanceId: null, kind: "limit", limitId, memberId }))
      : [];
  const flaws = [...entryFlaws, ...owedFlaws, ...limitFlaws];
  const granted = balances.filter(({ grantSeq }) => grantSeq > afterSeq && grantSeq <= endSeq);
  return {
    // The first pass counts all balances and entries.
    balances: fromSeq === 0 ? granted.length : 0,
    entries: fromSeq === 0 ? entries.length : 0,
    isSound: flaws.length === 0,
    flaws,
    next: nextPosition(position, stretch, checkpoints),
  };
}

/** The most users of a page. */
const VERIFIED_USERS_MAX = 50;

/**
 * Verifies the users of an environment, one after another (C25). A page has at most `VERIFIED_ENTRIES_MAX` entries, and may end
 * within a user's ledger. Throws `invalid_request` for a cursor of another list.
 */
export async function verifyUsers(ctx: TenantCtx, cursor: string | undefined): Promise<VerifyUsersOutput> {
  const scope = ["verify users", ctx.environment.id];
  const text = cursor === undefined ? writeUsersPosition(FIRST_USER) : decodeTextCursor(cursor, scope);
  if (text === null) throw invalidCursor();
  const position = readUsersPosition(text);
  const found = await all(ctx.db, selectUsersToVerify({ ...usersAfter(ctx, position), limit: VERIFIED_USERS_MAX + 1 }));
  const positionOf = ({ userId }: VerifiedUserRow) =>
    userId === position.userId ? (position.within ?? VERIFY_START) : VERIFY_START;
  const users = takeUsers(found, positionOf);
  const verified = await verifyStretches(
    ctx,
    users.map((user) => ({ user: { accountId: user.accountId }, position: positionOf(user) })),
  );
  const pages = verified.map((page, index) => presentPage(ctx, users[index]?.userId ?? "", page));
  const within = verified.at(-1)?.next ?? null;
  const hasMore = within !== null || users.length < found.length;
  const next = { userId: users.at(-1)?.userId ?? "", within };
  return { users: pages, nextCursor: hasMore ? encodeTextCursor(writeUsersPosition(next), scope) : null };
}

/** The last verified user, and the position within that user's ledger. `within` is null when that user is finished. */
interface VerifyUsersPosition {
  readonly userId: string;
  readonly within: VerifyPosition | null;
}

const FIRST_USER: VerifyUsersPosition = { userId: "", within: null };

function writeUsersPosition({ userId, within }: VerifyUsersPosition): string {
  return JSON.stringify([userId, within === null ? null : writePosition(within)]);
}

function readUsersPosition(text: string): VerifyUsersPosition {
  // The cursor's checksum proves that `writeUsersPosition` wrote it.
  const [userId, within] = JSON.parse(text) as [string, string | null];
  return { userId, within: within === null ? null : readVerifyPosition(within) };
}

const usersAfter = ({ environment }: TenantCtx, { userId, within }: VerifyUsersPosition) => ({
  environmentId: environment.id,
  fromUserId: userId,
  isFinished: within === null ? 1 : 0,
});

const selectUsersToVerify = query((value: ValueOf<ReturnType<typeof usersAfter> & { limit: number }>) =>
  drizzle
    .select({
      ...fields(accounts, { accountId: "id", userId: "userId" }),
      ...computed({ lastSeq: lastSeqOf(sql`${accounts.id}`) }),
    })
    .from(accounts)
    .where(
      and(
        eq(accounts.environmentId, value("environmentId")),
        gte(accounts.userId, value("fromUserId")),
        or(gt(accounts.userId, value("fromUserId")), sql`NOT ${value("isFinished")}`),
      ),
    )
    .orderBy(accounts.userId)
    .limit(boundLimit(value("limit"))),
);
type VerifiedUserRow = StatementRow<typeof selectUsersToVerify>;

/** Returns as many users as fit in a page, at least one. */
function takeUsers(
  found: readonly VerifiedUserRow[],
  positionOf: (user: VerifiedUserRow) => VerifyPosition,
): readonly VerifiedUserRow[] {
  let entries = 0;
  const beyond = found.findIndex((user, index) => {
    entries += user.lastSeq - positionOf(user).afterSeq;
    return index > 0 && (index === VERIFIED_USERS_MAX || entries > VERIFIED_ENTRIES_MAX);
  });
  return beyond === -1 ? found : found.slice(0, beyond);
}

import { all, batch, type RowsOf } from "../../db/sql.ts";
import { invalidCursor } from "../../errors.ts";
import { assert } from "../../lib/assert.ts";
import { decodeTextCursor, encodeTextCursor } from "../../lib/cursor.ts";
import type { TenantCtx } from "../../runtime.ts";
import type { User } from "../ledger/account.ts";
import { type Flaw, type LedgerStretch, missingEnds, verifyEntries } from "../ledger/verify-entries.ts";
import type { VerifyOutput } from "./responses.ts";
import type { VerifyInput } from "./schemas.ts";
import {
  nextPosition,
  readVerifyPosition,
  VERIFY_START,
  type VerifyPosition,
  writePosition,
} from "./verify-position.ts";
import { selectEntriesAt, selectStretch } from "./verify-rows.ts";

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
export function presentPage(ctx: TenantCtx, userId: string, { next, ...page }: Verified): VerifyOutput {
  const nextCursor = next === null ? null : encodeTextCursor(writePosition(next), verifyScopeOf(ctx, userId));
  return { userId, ...page, nextCursor };
}

/** A stretch of a user's ledger to verify. */
export interface Stretch {
  readonly user: User;
  readonly position: VerifyPosition;
}

/** Reads stretches of several users in one trip, and verifies them. `next` is null at the end of a user's ledger. */
export async function verifyStretches(ctx: TenantCtx, stretches: readonly Stretch[]): Promise<Verified[]> {
  const selected = stretches.map(({ user, position }) => selectStretch(ctx, user, position, endOf(position)));
  const rows: readonly unknown[][] = await batch(ctx.db, selected.flat());
  const size = selected[0]?.length ?? 0;
  return Promise.all(
    stretches.map(async ({ user, position }, index) => {
      // A batch returns its rows in the order of its statements, which have these types.
      const found = rows.slice(index * size, (index + 1) * size) as RowsOf<ReturnType<typeof selectStretch>>;
      const read = readStretch(position, found);
      const missing = missingEnds(read);
      // Not empty only if somebody wrote for the user between two pages.
      const moved = missing.length === 0 ? [] : await all(ctx.db, selectEntriesAt(ctx, user, missing));
      const others = moved.map((end) => ({ ...end, total: BigInt(end.afterSteps) }));
      return verifyStretch(position, { ...read, standings: [...others, ...read.standings] }, found[4], found[5]);
    }),
  );
}

export type Verified = ReturnType<typeof verifyStretch>;

const endOf = ({ afterSeq }: VerifyPosition): number => afterSeq + VERIFIED_ENTRIES_MAX;

function readStretch(
  position: VerifyPosition,
  [[last], entries, balances, ends]: RowsOf<ReturnType<typeof selectStretch>>,
): LedgerStretch {
  const { afterSeq, fromSeq, toSeq } = position;
  const { lastSeq = 0, lastGrantSeq = 0 } = last ?? {};
  const endSeq = endOf(position);
  return {
    ...{ afterSeq, endSeq, lastSeq, entries, balances, fromSeq },
    toSeq: toSeq ?? Number.MAX_SAFE_INTEGER,
    isEnd: endSeq >= Math.max(lastSeq, lastGrantSeq),
    standings: ends.map((end) => ({ ...end, total: BigInt(end.afterSteps) + (position.ends.get(end.seq) ?? 0n) })),
  };
}

function verifyStretch(
  position: VerifyPosition,
  stretch: LedgerStretch,
  owedTooMuch: readonly { readonly balanceId: string }[],
  miscounted: readonly { readonly limitId: string }[],
) {
  const { afterSeq, endSeq, fromSeq, balances, entries } = stretch;
  const { flaws: ofEntries, standings } = verifyEntries(stretch);
  // Checked once, with the first page, against what is owed now.
  const ofOwed = fromSeq === 0 ? owedTooMuch.map(({ balanceId }): Flaw => ({ balanceId, kind: "owed" })) : [];
  const ofLimits =
    fromSeq === 0 ? miscounted.map(({ limitId }): Flaw => ({ balanceId: null, kind: "limit", limitId })) : [];
  const flaws = [...ofEntries, ...ofOwed, ...ofLimits];
  const granted = balances.filter(({ grantSeq }) => grantSeq > afterSeq && grantSeq <= endSeq);
  return {
    // The first pass counts all balances and entries.
    balances: fromSeq === 0 ? granted.length : 0,
    entries: fromSeq === 0 ? entries.length : 0,
    isSound: flaws.length === 0,
    flaws,
    next: nextPosition(position, stretch, standings),
  };
}

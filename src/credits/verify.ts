import { batch, type RowsOf } from "../db/sql.ts";
import { invalidCursor } from "../errors.ts";
import type { User } from "../ledger/account.ts";
import { type Standing, verifyEntries } from "../ledger/verify-entries.ts";
import { assert } from "../lib/assert.ts";
import { decodeTextCursor, encodeTextCursor } from "../lib/cursor.ts";
import type { TenantCtx } from "../runtime.ts";
import type { VerifyOutput } from "./responses.ts";
import type { VerifyInput } from "./schemas.ts";
import { readPosition, START, type VerifyPosition, writePosition } from "./verify-position.ts";
import { STEPS_APART, selectStretch } from "./verify-rows.ts";

/** A page of a verification has at most this many entries. */
export const VERIFIED_ENTRIES_MAX = 10_000;

/**
 * Recomputes a user's balances from the ledger, a page at a time, and says what does not add up (C25). An unknown user is
 * sound. Throws `invalid_request` for a cursor of another list.
 */
export async function verifyUser(ctx: TenantCtx, { userId, cursor }: VerifyInput): Promise<VerifyOutput> {
  const position = cursor === undefined ? START : openCursor(ctx, userId, cursor);
  const [verified] = await verifyStretches(ctx, [{ user: { userId }, position }]);
  assert(verified !== undefined, "one stretch is verified");
  return presentPage(ctx, userId, verified);
}

const scopeOf = ({ environment }: TenantCtx, userId: string) => ["verify", environment.id, userId];

function openCursor(ctx: TenantCtx, userId: string, cursor: string): VerifyPosition {
  const text = decodeTextCursor(cursor, scopeOf(ctx, userId));
  if (text === null) throw invalidCursor();
  return readPosition(text);
}

/** A page of a user's verification as the API returns it. Its cursor goes on with this user. */
export function presentPage(ctx: TenantCtx, userId: string, { next, ...page }: Verified): VerifyOutput {
  const nextCursor = next === null ? null : encodeTextCursor(writePosition(next), scopeOf(ctx, userId));
  return { userId, ...page, nextCursor };
}

/** A stretch of a user's ledger that is to be verified. */
export interface Stretch {
  readonly user: User;
  readonly position: VerifyPosition;
}

/** Reads stretches of several users in one trip, and verifies them. `next` is null at the end of a user's ledger. */
export async function verifyStretches(ctx: TenantCtx, stretches: readonly Stretch[]): Promise<Verified[]> {
  const selected = stretches.map(({ user, position }) =>
    selectStretch(ctx, user, { ...position, endSeq: position.afterSeq + VERIFIED_ENTRIES_MAX }),
  );
  const rows: readonly unknown[][] = await batch(ctx.db, selected.flat());
  const size = selected[0]?.length ?? 0;
  return stretches.map(({ position }, index) => {
    // A batch answers in the order of its statements, whose types say what their rows are.
    const found = rows.slice(index * size, (index + 1) * size) as RowsOf<ReturnType<typeof selectStretch>>;
    return verifyStretch(position, found);
  });
}

export type Verified = ReturnType<typeof verifyStretch>;

function verifyStretch(
  { afterSeq, ends }: VerifyPosition,
  [[last], entries, balances, rows]: RowsOf<ReturnType<typeof selectStretch>>,
) {
  const lastSeq = last?.lastSeq ?? 0;
  const endSeq = afterSeq + VERIFIED_ENTRIES_MAX;
  const standings = rows.map(({ whole, rest, ...end }): Standing => {
    const above = ends?.get(end.seq);
    return {
      ...end,
      total: above === undefined ? BigInt(whole) * STEPS_APART + BigInt(rest) : BigInt(end.afterSteps) + above,
    };
  });
  const isEnd = endSeq >= lastSeq;
  const { flaws, standings: open } = verifyEntries({ afterSeq, endSeq, lastSeq, entries, balances, standings });
  const next: VerifyPosition = {
    afterSeq: endSeq,
    ends: new Map(open.map(({ seq, afterSteps, total }) => [seq, total - BigInt(afterSteps)])),
  };
  return {
    balances: balances.filter(({ grantSeq }) => grantSeq > afterSeq && (isEnd || grantSeq <= endSeq)).length,
    entries: entries.length,
    isSound: flaws.length === 0,
    flaws: [...flaws],
    next: isEnd ? null : next,
  };
}

import { and, eq, inArray, type SQL, sql } from "drizzle-orm";
import { countActivity } from "../activity/count.ts";
import { fromSteps } from "../amounts/amount.ts";
import { constraintOf } from "../db/constraint.ts";
import { prepared, selecting } from "../db/prepared.ts";
import { creditBalances, environments, NEVER_MS } from "../db/schema.ts";
import { batchAround } from "../db/statement.ts";
import { PurserError } from "../errors.ts";
import { type BalanceRow, presentExpiry } from "../ledger/balance.ts";
import { bearing, type Issue } from "../ledger/entries.ts";
import { afterReturn, dueHolds, type Hold, landAfterDue, readHold, settleDue } from "../ledger/holds.ts";
import { assert } from "../lib/assert.ts";
import { chooseFound, findPackStatements } from "../packs/find.ts";
import { nameKey } from "../packs/name.ts";
import type { Ctx } from "../runtime.ts";
import type { GrantOutput } from "./answers.ts";
import { decideIssue } from "./issue.ts";
import type { GrantInput } from "./schemas.ts";

export interface Granted {
  readonly output: GrantOutput;
  /** Whether the balances were there already, for the same `externalRef`. */
  readonly replayed: boolean;
}

/**
 * Issues a pack's balances to a user: one per item, or one of `quantity` for a legacy pack; all or none. With an
 * `externalRef` it lands once (interface.md, grant; decisions.md, C5 to C10, C19).
 *
 * Throws `credit_pack_not_found`, `invalid_quantity`, `invalid_request` (expiry in the past), `test_quota_exceeded`.
 */
export async function grant(ctx: Ctx, input: GrantInput): Promise<Granted> {
  const [packs, items, earlier, dueRows] = await ctx.db.batch([
    ...findPackStatements(ctx, input.packId),
    selectIssued(ctx.db, {
      environmentId: ctx.environment.id,
      userId: input.userId,
      externalRef: input.externalRef ?? null,
    }),
    dueHolds(ctx, input.userId),
  ]);
  const due = dueRows.map(readHold);
  const pack = chooseFound(input.packId, packs, items);
  // A replay is looked for first: under this pack, or under the name that it was asked for by when it was issued.
  const isSamePack = (row: GrantedRow) => row.packId === pack?.id;
  const isSameName = (row: GrantedRow) => nameKey(row.packName) === nameKey(input.packId);
  const replayed = earlier.some(isSamePack)
    ? earlier.filter(isSamePack)
    : firstPackOf(pack?.id === input.packId ? [] : earlier.filter(isSameName));
  if (replayed.length > 0) {
    await settleDue(ctx, input.userId, due);
    return { output: present(afterReturn(replayed, due)), replayed: true };
  }
  let issue: Issue;
  try {
    issue = decideIssue(ctx, input, pack);
  } catch (refusal) {
    countActivity(ctx.environment.id, "failed_grant", ctx.now());
    await settleDue(ctx, input.userId, due);
    throw refusal;
  }
  return land(ctx, issue, due);
}

const environmentId = sql.placeholder("environmentId");
const userId = sql.placeholder("userId");

/**
 * The ids of what this user holds under an `externalRef`, of whatever pack: a handful at the most, none under NULL. The
 * index is named because SQLite, left to choose, takes the first columns of the primary key and reads all that the user
 * ever had.
 */
const underRef = sql`SELECT id FROM credit_balances INDEXED BY credit_balances_external_ref
  WHERE environment_id = ${environmentId} AND user_id = ${userId} AND external_ref = ${sql.placeholder("externalRef")}`;

const isOneOf = (ids: SQL) =>
  and(
    eq(creditBalances.environmentId, environmentId),
    eq(creditBalances.userId, userId),
    inArray(creditBalances.id, sql`(${ids})`),
  );

const grantedColumns = {
  id: creditBalances.id,
  packId: creditBalances.packId,
  packName: creditBalances.packName,
  packItemId: creditBalances.packItemId,
  unit: creditBalances.unit,
  remainingSteps: creditBalances.remainingSteps,
  expiresAtMs: creditBalances.expiresAtMs,
  revokedAtMs: creditBalances.revokedAtMs,
  grantSeq: creditBalances.grantSeq,
};
type GrantedRow = Pick<BalanceRow, keyof typeof grantedColumns>;

const selectIssued = selecting(grantedColumns, creditBalances, isOneOf(underRef));

/** Of rows that two packs of one name may share, those of the pack that came first. */
function firstPackOf(rows: readonly GrantedRow[]): readonly GrantedRow[] {
  const first = rows.toSorted((a, b) => a.grantSeq - b.grantSeq)[0];
  return rows.filter((row) => row.packId === first?.packId);
}

/**
 * The statements of a grant whose balances are there already if `areThere`, and which answers those that `ids` names: the
 * test quota, the balances with their ledger rows, and what stands under the grant afterwards.
 */
const granting = (areThere: SQL, ids: SQL) => ({
  count: prepared(sql`
    UPDATE ${environments}
    SET test_balance_count = test_balance_count + ${sql.placeholder("amount")},
      test_balance_quota = ${sql.placeholder("quota")}
    WHERE id = ${environmentId} AND mode = 'test' AND NOT (${areThere})`),
  bear: bearing(areThere),
  select: selecting(grantedColumns, creditBalances, isOneOf(ids)),
});

const idsMade = sql.placeholder("ids");
const underThisRef = sql`${underRef} AND pack_id = ${sql.placeholder("packId")}`;
const once = granting(sql`EXISTS (${underThisRef})`, underThisRef);
// All or none land, so one of them tells of all.
const anew = granting(
  sql`EXISTS (SELECT 1 FROM credit_balances WHERE id = ${idsMade} ->> 0)`,
  sql`SELECT value FROM json_each(${idsMade})`,
);

/** One batch: the return of due holds, and the statements of the grant. */
async function land(ctx: Ctx, issue: Issue, due: readonly Hold[]): Promise<Granted> {
  const ids = issue.births.map((birth) => birth.id);
  const { count, bear, select } = issue.externalRef === null ? anew : once;
  const { externalRef, packId } = issue;
  const values = {
    environmentId: ctx.environment.id,
    userId: issue.userId,
    ids: JSON.stringify(ids),
    externalRef,
    packId,
    amount: ids.length,
    quota: ctx.settings.testBalanceQuota,
  };
  const quota = ctx.environment.mode === "test" ? [count(ctx.db, values)] : [];
  const born = bear(ctx, issue, values);
  try {
    const rows = await landAfterDue(ctx, issue.userId, due, (returns) =>
      batchAround(ctx.db, [...returns, ...quota, born], select(ctx.db, values), []),
    );
    const replayed = rows.every((row) => !ids.includes(row.id));
    if (!replayed) countIssue(ctx, issue);
    return { output: present(rows), replayed };
  } catch (error) {
    if (constraintOf(error) !== "environments_test_quota") throw error;
    countActivity(ctx.environment.id, "failed_grant", ctx.now());
    await settleDue(ctx, issue.userId, due);
    throw new PurserError("test_quota_exceeded", "The application holds as many test-mode balances as it may.", {
      details: { quota: ctx.settings.testBalanceQuota },
    });
  }
}

function countIssue(ctx: Ctx, { births, expiresAtMs }: Issue): void {
  for (const { unit, amountSteps } of births) {
    countActivity(ctx.environment.id, "granted", ctx.now(), unit, amountSteps);
    if (expiresAtMs !== NEVER_MS) countActivity(ctx.environment.id, "expiring", expiresAtMs, unit, amountSteps);
  }
}

function present(rows: readonly GrantedRow[]): GrantOutput {
  const balances = rows
    .toSorted((a, b) => a.grantSeq - b.grantSeq)
    .map((row) => ({
      balanceId: row.id,
      packItemId: row.packItemId === "" ? null : row.packItemId,
      remaining: fromSteps(row.unit, row.remainingSteps),
      expiresAt: presentExpiry(row.expiresAtMs),
    }));
  const first = balances[0];
  assert(first !== undefined, "a grant leaves at least one balance");
  const { balanceId, remaining, expiresAt } = first;
  return { balances, balanceId, remaining, expiresAt };
}

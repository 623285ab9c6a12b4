import type { Pack } from "../../catalog/pack.ts";
import type { recurringGrants } from "../../db/schema.ts";
import { idIn } from "../../db/session.ts";
import { PurserError } from "../../errors.ts";
import { DIGITS } from "../../lib/encoding.ts";
import { offsetMsAt } from "../../lib/time-zone.ts";
import type { Environment } from "../../runtime.ts";
import { type BalanceRow, NEVER_MS } from "./balance.ts";
import { isEmptyPeriod, lastPeriod, periodAt, periodStart } from "./calendar.ts";
import { type NewBalances, planGrant, type Quota } from "./new-balances.ts";

/** The fields of a recurring grant that the plan of its periods needs. */
export type Recurring = Pick<
  typeof recurringGrants.$inferSelect,
  | "ordinal"
  | "id"
  | "packId"
  | "quantity"
  | "every"
  | "anchorMs"
  | "timeZone"
  | "anchorLocalMs"
  | "utcOffsetMs"
  | "endsAtMs"
  | "rolloverPeriods"
  | "idSeed"
  | "state"
  | "lastN"
  | "countedBalances"
>;

/** A recurring grant with its current pack. */
export interface RecurringOfPack extends Recurring {
  readonly pack: Pack | null;
  /** Whether its pack was not read, because it did not fit. Its periods are left for the next batch. */
  readonly isLeft?: boolean;
}

/** A period to grant. */
export interface DuePeriod {
  readonly recurringId: string;
  /** The beginning of the period. */
  readonly atMs: number;
  readonly grant: NewBalances;
}

/** A change of a recurring grant. The batch aborts when the grant has changed since it was read. */
export interface RecurringChange
  extends Pick<
    typeof recurringGrants.$inferSelect,
    "ordinal" | "lastN" | "state" | "reason" | "nextAtMs" | "utcOffsetMs" | "countedBalances"
  > {
  readonly id: string;
  readonly before: Pick<Recurring, "state" | "lastN">;
}

/** The plan for a user's due periods. */
export interface PeriodPlan {
  /** In order of their beginnings. */
  readonly periods: readonly DuePeriod[];
  readonly changes: readonly RecurringChange[];
  /** How many of the periods' balances the test quota has not counted yet. */
  readonly newlyCounted: number;
  /** The beginning of the first period that is left for the next batch. Null if no period is left. */
  readonly nextMs: number | null;
  /** Returns the plan that grants nothing, for a user who has too many balances (L6). */
  readonly whenFull: () => PeriodPlan;
}

export const NO_PERIODS: PeriodPlan = {
  ...{ periods: [], changes: [], newlyCounted: 0, nextMs: null },
  whenFull: () => NO_PERIODS,
};

/** The most balances of due periods in one batch, and the most bytes of their rules. One period may have more. */
const BALANCES_A_BATCH_MAX = 50;
const RULE_BYTES_A_BATCH_MAX = 1_000_000;

const STEP = 0x9e3779b97f4a7c15f39cc0605cedc8341n;
const PERIOD_ID_LENGTH = 22;
const RANGE = 62n ** BigInt(PERIOD_ID_LENGTH);

const numberOf = (characters: string): bigint =>
  [...characters].reduce((sum, character) => sum * 62n + BigInt(Math.max(0, DIGITS.indexOf(character))), 0n);

/** Returns the id of a period's balance. It is the same in every plan, and as random as the seed (R3). */
function periodBalanceId(environment: Pick<Environment, "database">, seed: string, n: number, itemId: string) {
  let rest = (numberOf(seed) + numberOf(itemId.slice("cpi_".length)) + BigInt(n) * STEP) % RANGE;
  let text = "";
  while (text.length < PERIOD_ID_LENGTH) {
    text = DIGITS.charAt(Number(rest % 62n)) + text;
    rest /= 62n;
  }
  return idIn(environment.database, `crb_${text}`);
}

/** The prefix of the reference of a period's balances (R2). References from callers must not begin with it. */
export const RECURRING_REF = "recurring:";
const periodReference = (recurringId: string, n: number): string => `${RECURRING_REF}${recurringId}:${n}`;

/**
 * Returns the grant of a period from the current pack. Throws the rejections of a grant (R4). The grant expires `rolloverPeriods` after
 * the period's end, or, if that is null, as the pack says from the period's beginning.
 */
export function grantOfPeriod(
  environment: Pick<Environment, "database">,
  recurring: RecurringOfPack,
  n: number,
): NewBalances {
  const { id, packId, pack, quantity, rolloverPeriods, idSeed } = recurring;
  const fromMs = periodStart(recurring, n);
  const items = pack?.items ?? [];
  const input = {
    packId,
    quantity: quantity === null ? null : (JSON.parse(quantity) as number),
    source: "grant",
    cause: "recurring",
    externalRef: periodReference(id, n),
    expiresAt: rolloverPeriods === null ? undefined : periodStart(recurring, n + 1 + rolloverPeriods),
  } as const;
  return planGrant(input, pack, fromMs, (index) => periodBalanceId(environment, idSeed, n, items[index]?.id ?? ""));
}

/** Returns the numbers of the periods to grant at a time, and the number of the last period that has begun (R2). */
export function duePeriods(
  recurring: Recurring,
  nowMs: number,
): { readonly numbers: number[]; readonly lastN: number } {
  const { endsAtMs, rolloverPeriods, lastN } = recurring;
  const current = periodAt(recurring, nowMs);
  const last = Math.min(current, lastPeriod(recurring, endsAtMs));
  const numbers: number[] = [];
  // The credits of earlier periods have expired.
  for (let n = Math.max(lastN + 1, 1, current - (rolloverPeriods ?? 0)); n <= last; n++) {
    if (!isEmptyPeriod(recurring, n)) numbers.push(n);
  }
  return { numbers, lastN: Math.max(lastN, last) };
}

/** Returns the beginning of a period that comes next, and its zone's offset then. */
function nextPeriod(recurring: Recurring, n: number) {
  const nextAtMs = periodStart(recurring, n);
  return { nextAtMs, utcOffsetMs: offsetMsAt(recurring, nextAtMs) };
}

/** Returns the state of an active recurring grant after the periods up to `lastN`. */
export function afterPeriod(recurring: Recurring, lastN: number) {
  if (lastN >= lastPeriod(recurring, recurring.endsAtMs)) return { state: "ended", nextAtMs: null } as const;
  return { state: "active", ...nextPeriod(recurring, lastN + 1) } as const;
}

interface Progress {
  counted: number;
  /** The period at which the next batch continues. */
  nextN: number | null;
  rejection: { readonly n: number; readonly code: string } | null;
}

export interface PlanTerms {
  readonly nowMs: number;
  readonly quota: Quota;
  /** Whether the user has the maximum number of balances. */
  readonly isFull?: boolean;
  /** Whether to plan all due periods, and not only one batch. */
  readonly isWhole?: boolean;
}

/**
 * Plans the due periods of a user's recurring grants, in order of their beginnings: as many as fit into a batch. If the rules of
 * grants reject a period, its recurring grant is suspended (R4). Pure.
 */
export function planPeriods(
  environment: Pick<Environment, "database">,
  recurring: readonly RecurringOfPack[],
  { nowMs, quota, isFull = false, isWhole = false }: PlanTerms,
): PeriodPlan {
  if (recurring.length === 0) return NO_PERIODS;
  const queue = recurring
    .flatMap((row) => duePeriods(row, nowMs).numbers.map((n) => ({ row, n, atMs: periodStart(row, n) })))
    .sort((a, b) => a.atMs - b.atMs || a.row.ordinal - b.row.ordinal);
  const progress = new Map<Recurring, Progress>(
    recurring.map((row) => [row, { counted: row.countedBalances, nextN: null, rejection: null }]),
  );
  const periods: DuePeriod[] = [];
  let balances = 0;
  let ruleBytes = 0;
  let newlyCounted = 0;
  let nextMs: number | null = null;
  for (const { row, n, atMs } of queue) {
    const progressOfRow = progress.get(row);
    if (progressOfRow === undefined || progressOfRow.rejection !== null) continue;
    if (nextMs === null && row.isLeft === true) nextMs = atMs;
    if (nextMs !== null) {
      progressOfRow.nextN ??= n;
      continue;
    }
    const grant = isFull ? "invalid_request" : grantOrCode(() => grantOfPeriod(environment, row, n));
    const more = typeof grant === "string" ? 0 : Math.max(0, grant.balances.length - progressOfRow.counted);
    const isOver = more > 0 && quota !== null && quota.used + newlyCounted + more > quota.max;
    if (typeof grant === "string" || isOver) {
      progressOfRow.rejection = { n, code: typeof grant === "string" ? grant : "test_quota_exceeded" };
      continue;
    }
    const bytes = grant.balances.reduce((sum, { matches }) => sum + matches.length, 0);
    const isBatchFull =
      balances + grant.balances.length > BALANCES_A_BATCH_MAX || ruleBytes + bytes > RULE_BYTES_A_BATCH_MAX;
    if (!isWhole && balances > 0 && isBatchFull) {
      nextMs = atMs;
      progressOfRow.nextN = n;
      continue;
    }
    balances += grant.balances.length;
    ruleBytes += bytes;
    newlyCounted += more;
    progressOfRow.counted += more;
    periods.push({ recurringId: row.id, atMs, grant });
  }
  const changes = [...progress].flatMap(([row, progressOfRow]) =>
    planPeriodChange(row, progressOfRow, duePeriods(row, nowMs).lastN),
  );
  const whenFull = () => planPeriods(environment, recurring, { nowMs, quota, isWhole, isFull: true });
  return { periods, changes, newlyCounted, nextMs, whenFull };
}

function grantOrCode(grant: () => NewBalances): NewBalances | string {
  try {
    return grant();
  } catch (error) {
    if (error instanceof PurserError) return error.code;
    throw error;
  }
}

function planPeriodChange(row: Recurring, { counted, nextN, rejection }: Progress, lastN: number): RecurringChange[] {
  const { ordinal, id, state, utcOffsetMs } = row;
  const before = { state, lastN: row.lastN };
  const common = { ordinal, id, before, utcOffsetMs, countedBalances: counted, reason: null };
  if (rejection !== null) {
    return [{ ...common, state: "suspended", reason: rejection.code, nextAtMs: null, lastN: rejection.n - 1 }];
  }
  if (nextN === null) return [{ ...common, lastN, ...afterPeriod(row, lastN) }];
  // The first due period is left for the next batch.
  if (nextN === row.lastN + 1) return [];
  return [{ ...common, lastN: nextN - 1, state: "active", ...nextPeriod(row, nextN) }];
}

/** Returns the balances of due periods as they will be written. */
export function balancesOfPeriods({ periods }: Pick<PeriodPlan, "periods">): BalanceRow[] {
  return periods.flatMap(({ atMs, grant: { packId, packName, expiresAtMs, externalRef, balances } }) =>
    balances.map(
      ({ id, packItemId, unit, matches, priority, amountMinor }): BalanceRow => ({
        ...{ id, packId, packName, packItemId, unit, matches, priority, expiresAtMs, externalRef },
        ...{ initialMinor: amountMinor, remainingMinor: amountMinor, grantedAtMs: atMs, revokedAtMs: null },
        ...{ source: "grant", notes: null, grantSeq: NEVER_MS },
      }),
    ),
  );
}

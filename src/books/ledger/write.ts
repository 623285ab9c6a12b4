import { eq, sql } from "drizzle-orm";
import { attempt, type Constraint, constraintOf, isConflict, MakeAgain } from "../../db/attempt.ts";
import { requireClock } from "../../db/features.ts";
import { computed, drizzle, fields, optional, type ValueOf } from "../../db/query.ts";
import { accounts, environments, reservations } from "../../db/schema.ts";
import { batch, type RowsOf, type Statement } from "../../db/sql.ts";
import { hashesOf, isBlocked, personErased, requireSecrets, standingIn } from "../../db/tombstones.ts";
import { PurserError } from "../../errors.ts";
import type { TenantCtx } from "../../runtime.ts";
import { accountQuery, byOf, type User } from "./account.ts";
import type { PayingRow } from "./balance.ts";
import { countersOf, readCounters } from "./counters.ts";
import type { Decision } from "./decision.ts";
import { dueRecurring, readDuePeriods } from "./due-periods.ts";
import { DUE_HOLDS_MAX, type DueHold, dueFields, isDue, readDueHolds } from "./hold.ts";
import { lastSeqOf } from "./insert-entries.ts";
import { type AccountState, memoryOf, type StateBefore } from "./memory.ts";
import { NO_PERIODS, type PeriodPlan } from "./plan-periods.ts";
import { type AccountAtRead, send } from "./send.ts";
import { hasCharge, isQuotaOfPeriods, settleDue } from "./settle-due.ts";

/**
 * The only way to write for a user: read, decide, send one batch, and repeat all of it on a conflict. A verb supplies its reads and
 * its decision. Due holds are returned (U8) or charged (U15) here, even if the verb refuses or finds a replay. See
 * docs/architecture.md.
 */
export interface UserWrite<Reads extends readonly Statement[], Answer> {
  readonly user: User;
  /** The reads of the decision besides the account and its due holds. All are sent in one batch. */
  readonly read: (nowMs: number) => Reads;
  /** Pure, except for ids that were created before. Throws a `PurserError` to refuse. */
  readonly decide: (found: RowsOf<Reads>, account: AccountAtRead) => Decision<Answer>;
  /** The rows that `read` would find, from this isolate's memory. Null when they are not in memory. */
  readonly recall?: (state: AccountState) => RowsOf<Reads> | null;
  /** All balances that may be able to pay, from the read rows. They are remembered. */
  readonly balances?: (found: RowsOf<Reads>) => readonly PayingRow[];
  /** Rows that were read before, together with other users. The first attempt uses them instead of memory or a read. */
  readonly readBefore?: ReadResult<Reads> | undefined;
  /** Constraints that mean a refusal, not a conflict. */
  readonly refusals?: Readonly<Partial<Record<Constraint, () => PurserError>>>;
}

/**
 * Runs a write in two round trips, or in one if memory has the account or nothing is written. Returns null when no user owns the
 * given reservation, recurring grant or balance. A user given by id may have no account yet. Throws the errors of `decide`, and
 * `temporarily_unavailable` after too many conflicts.
 */
export async function writeForUser<const Reads extends readonly Statement[], Answer>(
  ctx: TenantCtx,
  verb: UserWrite<Reads, Answer>,
): Promise<Answer | null> {
  let { readBefore } = verb;
  const onMemory = readBefore === undefined ? await writeOnMemory(ctx, verb) : null;
  if (onMemory !== null) return onMemory.answer;
  let refusal: PurserError | null = null;
  return attempt(ctx, async () => {
    const { account, found } = readBefore ?? (await readAfterCharges(ctx, verb));
    if (account === null) return null;
    // Other users' batches were sent since, so these rows may be outdated.
    const isOld = readBefore !== undefined;
    readBefore = undefined;
    const outcome = refusal ?? (await decideAndSend(ctx, verb, { account, found, isOld }));
    if (!(outcome instanceof PurserError)) return outcome.answer;
    // The refused batch also undid the return of holds, so they are returned now.
    refusal = outcome;
    await settleDue(ctx, account);
    throw refusal;
  });
}

/** Grants a user's first due periods, and returns or charges the first due holds, for the cron. Returns whether there may be more. */
export async function settleDueHolds(ctx: TenantCtx, user: User): Promise<boolean> {
  return attempt(ctx, async () => {
    const { account } = await readAccount(ctx, { user, read: () => [] });
    if (account === null) return false;
    await settleDue(ctx, account);
    return mayHaveMore(account);
  });
}

const mayHaveMore = ({ due, periods }: AccountAtRead): boolean =>
  due.length >= DUE_HOLDS_MAX || periods.nextMs !== null;

/** Reads for a verb. First it settles charges (U15) and all due holds beyond those that a read returns, in order. */
async function readAfterCharges<const Reads extends readonly Statement[]>(
  ctx: TenantCtx,
  verb: Pick<UserWrite<Reads, unknown>, "user" | "read">,
) {
  let reading = await readAccount(ctx, verb);
  while (reading.account !== null && (hasCharge(reading.account.due) || mayHaveMore(reading.account))) {
    await settleDue(ctx, reading.account);
    reading = await readAccount(ctx, verb);
  }
  return reading;
}

/** The environment's features and the account with its due periods, a row for each due hold. One query, because each takes time. */
const selectAccount = accountQuery(
  (value: ValueOf<{ environmentId: number; nowMs: number; hashes: string }>, account) =>
    drizzle
      .select({
        ...fields(environments, "features"),
        ...optional(fields(accounts, { accountId: "id", userId: "userId", recurringDueAtMs: "recurringDueAtMs" })),
        ...computed({
          isErased: sql<0 | 1>`coalesce(${accounts.isErased}, 0)
          OR ${isBlocked(value, environments.features, sql`${value("hashes")}`)}`,
          lastSeq: lastSeqOf(sql`${accounts.id}`),
          periods: sql<
            string | null
          >`iif(${accounts.recurringDueAtMs} <= ${value("nowMs")}, ${dueRecurring(value, accounts.id)}, NULL)`,
          counters: countersOf(value, environments.features, accounts.id),
        }),
        ...optional(dueFields()),
      })
      .from(environments)
      .leftJoin(accounts, eq(accounts.id, account))
      .leftJoin(reservations, isDue(value, accounts.id))
      .where(eq(environments.id, value("environmentId")))
      .orderBy(reservations.expiresAtMs)
      .limit(DUE_HOLDS_MAX),
);

/** The user's account, which is null when no user owns the given reservation or balance, and the rows of the verb's reads. */
export interface ReadResult<Reads extends readonly Statement[]> {
  readonly account: AccountAtRead | null;
  readonly found: RowsOf<Reads>;
}

async function readAccount<const Reads extends readonly Statement[]>(
  ctx: TenantCtx,
  { user, read }: Pick<UserWrite<Reads, unknown>, "user" | "read">,
): Promise<ReadResult<Reads>> {
  const atMs = ctx.now();
  const hashes = JSON.stringify("userId" in user ? await hashesOf(ctx, user.userId) : []);
  const first = selectAccount(ctx, user, { nowMs: atMs, hashes });
  const [rows, ...rest] = await batch(ctx.db, [first, ...read(atMs)] as const);
  const [stored] = rows;
  requireClock(ctx, stored?.features ?? null);
  await requireSecrets(ctx, standingIn(stored?.features ?? null));
  const isErased = stored?.isErased === 1;
  // An erased account is not found by old ids of reservations and recurring grants (E4). Payments still find it by its integer.
  const isUnknown = isErased && ("reservationId" in user || "recurringId" in user);
  if (isErased && ("userId" in user || "balanceId" in user)) throw personErased();
  const userId = isUnknown ? null : (stored?.userId ?? ("userId" in user ? user.userId : null));
  const account: AccountAtRead | null =
    userId === null
      ? null
      : {
          environmentId: ctx.environment.id,
          userId,
          accountId: stored?.accountId ?? null,
          nowMs: atMs,
          by: byOf(ctx),
          lastSeq: stored?.lastSeq ?? 0,
          features: stored?.features ?? null,
          ...(isErased
            ? NOTHING_DUE
            : whatIsDue(readDueHolds(rows), readDuePeriods(ctx, stored?.periods ?? null, { nowMs: atMs }))),
          recurringDueAtMs: stored?.recurringDueAtMs ?? null,
          counters: readCounters(stored?.counters ?? null),
        };
  // The rows of the verb's statements follow.
  return { account, found: rest as RowsOf<Reads> };
}

const NOTHING_DUE = { due: [], periods: NO_PERIODS };

/** Holds that end behind a period which waits for the next batch wait for it too. */
function whatIsDue(holds: readonly DueHold[], periods: PeriodPlan): Pick<AccountAtRead, "due" | "periods"> {
  const { nextMs } = periods;
  return { periods, due: nextMs === null ? holds : holds.filter(({ endsAtMs }) => endsAtMs < nextMs) };
}

function decide<Answer>(decision: () => Decision<Answer>): Decision<Answer> | PurserError {
  try {
    return decision();
  } catch (error) {
    if (error instanceof PurserError) return error;
    throw error;
  }
}

type Result<Answer> = { readonly answer: Answer };

async function decideAndSend<const Reads extends readonly Statement[], Answer>(
  ctx: TenantCtx,
  verb: UserWrite<Reads, Answer>,
  { account, found, isOld }: { account: AccountAtRead; found: RowsOf<Reads>; isOld: boolean },
): Promise<Result<Answer> | PurserError> {
  const decision = decide(() => verb.decide(found, account));
  if (decision instanceof PurserError) return decision;
  if (decision.kind === "replay") {
    await settleDue(ctx, account);
    return { answer: decision.answer };
  }
  try {
    return await send(ctx, account, decision, { before: stateBeforeOf(ctx, verb, account, found), isOld });
  } catch (error) {
    const constraint = constraintOf(error);
    // Whether a period or the verb made the balances too many shows when the periods are alone.
    if (constraint === "credit_balances_bounded" && account.periods.periods.length > 0) {
      await settleDue(ctx, account);
      throw new MakeAgain("The due periods were settled first.", { cause: error });
    }
    const refusal = constraint === null ? undefined : verb.refusals?.[constraint];
    if (refusal !== undefined) return refusal();
    throw isQuotaOfPeriods(error, account) ? new MakeAgain("The quota was used meanwhile.", { cause: error }) : error;
  }
}

/** The account's state when the write was decided. Null when it is not complete enough for memory. */
function stateBeforeOf<const Reads extends readonly Statement[]>(
  ctx: TenantCtx,
  verb: Pick<UserWrite<Reads, unknown>, "user" | "balances">,
  account: AccountAtRead,
  found: RowsOf<Reads>,
): StateBefore | null {
  if (account.due.length > 0 || account.periods.changes.length > 0) return null;
  const none = new Map<string, never>();
  if (verb.balances !== undefined) {
    const balances = new Map(verb.balances(found).map((row) => [row.id, row]));
    return { balances, reservations: none, seq: account.lastSeq };
  }
  if (account.accountId === null) return { balances: none, reservations: none, seq: 0 };
  return memoryOf(ctx).find(ctx.environment, verb.user, account.nowMs);
}

/** Writes in one trip, planned on memory. Null when memory is not enough, or on a conflict. Never refuses or replays. */
async function writeOnMemory<const Reads extends readonly Statement[], Answer>(
  ctx: TenantCtx,
  verb: UserWrite<Reads, Answer>,
): Promise<Result<Answer> | null> {
  const atMs = ctx.now();
  const memory = memoryOf(ctx);
  const state = verb.recall === undefined ? null : memory.find(ctx.environment, verb.user, atMs);
  const found = state === null ? null : (verb.recall?.(state) ?? null);
  if (state === null || found === null) return null;
  const { accountId, userId, features, recurringDueAtMs, seq: lastSeq } = state;
  const writing = { environmentId: ctx.environment.id, userId, accountId, nowMs: atMs, by: byOf(ctx) };
  const account = { ...writing, lastSeq, features, recurringDueAtMs, ...NOTHING_DUE, counters: null };
  const decision = decide(() => verb.decide(found, account));
  if (decision instanceof PurserError || decision.kind === "replay" || decision.isShort === true) return null;
  try {
    return await send(ctx, account, decision, { before: state, isOld: true });
  } catch (error) {
    if (!isConflict(error)) throw error;
    memory.readFirst(ctx.environment, userId, atMs);
    return null;
  }
}

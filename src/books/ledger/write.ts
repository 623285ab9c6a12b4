import { attempt, type Constraint, findConstraint, isConflict, RetryAttempt } from "../../db/attempt.ts";
import type { RowsOf, Statement } from "../../db/sql.ts";
import { PurserError } from "../../errors.ts";
import type { TenantCtx } from "../../runtime.ts";
import { readActor, type User } from "./account.ts";
import { commit } from "./commit-change.ts";
import { type Decision, decisionOrRejection } from "./decision.ts";
import { type AccountState, memoryOf, type StateBefore } from "./memory.ts";
import {
  type AccountAtRead,
  type AccountRead,
  NOTHING_DUE,
  type ReadResult,
  readAccount,
  settleAccount,
} from "./read-account.ts";
import { mustSettleFirst } from "./settle.ts";

/**
 * A verb's part of a write for a user: its reads and its decision. `writeForUser` is the only way to write for a user: it reads,
 * decides, sends one batch, and repeats all of it on a conflict. It also returns (U8) or charges (U15) due holds, even if the verb
 * rejects or finds a replay. See docs/architecture.md.
 */
export interface UserWrite<Reads extends readonly Statement[], Answer> extends AccountRead<Reads> {
  /** Pure, except that it may use ids that were created before. Throws a `PurserError` to reject. */
  readonly decide: (found: RowsOf<Reads>, account: AccountAtRead) => Decision<Answer>;
  /** Returns the rows that `read` would find, from this isolate's memory. Null when they are not in memory. */
  readonly recall?: (state: AccountState) => RowsOf<Reads> | null;
  /** Rows that were read before, together with other users. The first attempt uses them instead of memory or a read. */
  readonly readBefore?: ReadResult<Reads> | undefined;
  /** Constraints that mean a rejection, not a conflict. */
  readonly rejections?: Readonly<Partial<Record<Constraint, () => PurserError>>>;
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
  const fromMemory = readBefore === undefined ? await writeFromMemory(ctx, verb) : null;
  if (fromMemory !== null) return fromMemory.answer;
  let rejection: PurserError | null = null;
  return attempt(ctx, async () => {
    const { account, found } = readBefore ?? (await readForOneBatch(ctx, verb));
    if (account === null) return null;
    // Other users' batches were sent since, so these rows may be outdated.
    const isOld = readBefore !== undefined;
    readBefore = undefined;
    const outcome = rejection ?? (await decideAndSend(ctx, verb, { account, found, isOld }));
    if (!(outcome instanceof PurserError)) return outcome.answer;
    // The rejected batch also undid the settlement of what is due.
    rejection = outcome;
    await settleDue(ctx, account);
    throw rejection;
  });
}

/**
 * Returns what `decide` makes of the user's account as `writeForUser` would read and settle it. Writes nothing. Returns null when no
 * user owns the given reservation, recurring grant or balance. Settles as much as one batch takes.
 */
export async function previewForUser<const Reads extends readonly Statement[], Answer>(
  ctx: TenantCtx,
  {
    decide,
    ...verb
  }: AccountRead<Reads> & { readonly decide: (found: RowsOf<Reads>, account: AccountAtRead) => Answer },
): Promise<Answer | null> {
  const { account, found } = await readAccount(ctx, verb);
  return account === null ? null : decide(found, account);
}

/** A user's own writes settle what is due too, so more conflicts than this are a fault. */
const CRON_ATTEMPTS_MAX = 8;

/** Grants a user's first due periods, and returns or charges the first due holds, for the cron. Returns whether more may be due. */
export async function settleDueHolds(ctx: TenantCtx, user: User): Promise<boolean> {
  const once = async () => {
    const { account } = await readAccount(ctx, { user, read: () => [] });
    if (account === null) return false;
    await settleDue(ctx, account);
    return mayHaveMoreDue(account);
  };
  return attempt(ctx, once, CRON_ATTEMPTS_MAX);
}

/**
 * Grants an account's due periods (R3), and returns or charges its due holds (U8, U15), in order of time, in a batch of their own.
 * Sends nothing if nothing is due. Fails with a conflict if another write came first, or recorded an event with a charge's id.
 */
async function settleDue(ctx: TenantCtx, account: AccountAtRead): Promise<void> {
  const { due, periods } = account;
  if (due.length === 0 && periods.changes.length === 0) return;
  try {
    await commit(ctx, account, { decision: null, before: null, isOld: false });
  } catch (error) {
    if (isQuotaOfPeriods(error, account)) throw new RetryAttempt("The quota was used meanwhile.", { cause: error });
    if (findConstraint(error) !== "credit_balances_bounded" || periods.periods.length === 0) throw error;
    await settleDue(ctx, settleAccount({ ...account, periods: periods.whenFull() }));
  }
}

/** Returns whether a batch failed on the test quota because of its periods, although their plan was within the quota. */
const isQuotaOfPeriods = (error: unknown, { periods }: AccountAtRead): boolean =>
  periods.newlyCounted > 0 && findConstraint(error) === "environments_test_quota";

const mayHaveMoreDue = ({ hasMoreDue, periods }: AccountAtRead): boolean => hasMoreDue || periods.nextMs !== null;

/**
 * Reads for a verb. Before that, settles holds whose balances owe (C21), and what is due as long as one batch cannot settle all of it.
 */
async function readForOneBatch<const Reads extends readonly Statement[]>(ctx: TenantCtx, verb: AccountRead<Reads>) {
  let reading = await readAccount(ctx, verb);
  while (reading.account !== null && (mustSettleFirst(reading.account.due) || mayHaveMoreDue(reading.account))) {
    await settleDue(ctx, reading.account);
    reading = await readAccount(ctx, verb);
  }
  return reading;
}

type Result<Answer> = { readonly answer: Answer };

async function decideAndSend<const Reads extends readonly Statement[], Answer>(
  ctx: TenantCtx,
  verb: UserWrite<Reads, Answer>,
  { account, found, isOld }: { account: AccountAtRead; found: RowsOf<Reads>; isOld: boolean },
): Promise<Result<Answer> | PurserError> {
  const decision = decisionOrRejection(() => verb.decide(found, account));
  if (decision instanceof PurserError) return decision;
  if (decision.kind === "replay") {
    await settleDue(ctx, account);
    return { answer: decision.answer };
  }
  try {
    const before = findStateBefore(ctx, verb, account);
    const rows = await commit(ctx, account, { decision, before, isOld });
    return { answer: decision.answer(rows) };
  } catch (error) {
    const constraint = findConstraint(error);
    // Either the periods or the verb issued too many balances. Granting the periods first tells which.
    if (constraint === "credit_balances_bounded" && account.periods.periods.length > 0) {
      await settleDue(ctx, account);
      throw new RetryAttempt("The due periods were settled first.", { cause: error });
    }
    const rejection = constraint === null ? undefined : verb.rejections?.[constraint];
    if (rejection !== undefined) return rejection();
    throw isQuotaOfPeriods(error, account)
      ? new RetryAttempt("The quota was used meanwhile.", { cause: error })
      : error;
  }
}

const NO_KNOWN_MEMBERS: ReadonlySet<string> = new Set();

/** Returns the account's state before the batch. Null when it is too incomplete to be remembered. */
function findStateBefore(
  ctx: TenantCtx,
  verb: Pick<UserWrite<readonly Statement[], unknown>, "user" | "balances">,
  account: AccountAtRead,
): StateBefore | null {
  // Memory does not know when the next period begins.
  if (account.periods.changes.length > 0) return null;
  const none = new Map<string, never>();
  if (verb.balances !== undefined) {
    const balances = new Map(account.rows.map((row) => [row.id, row]));
    return { balances, reservations: none, seq: account.lastSeq, members: NO_KNOWN_MEMBERS };
  }
  if (account.due.length > 0) return null;
  if (account.accountId === null) return { balances: none, reservations: none, seq: 0, members: NO_KNOWN_MEMBERS };
  return memoryOf(ctx).find(ctx.environment, verb.user, account.nowMs);
}

/** Writes in one trip, planned from memory. Returns null when memory is not enough, or on a conflict. Never rejects or replays. */
async function writeFromMemory<const Reads extends readonly Statement[], Answer>(
  ctx: TenantCtx,
  verb: UserWrite<Reads, Answer>,
): Promise<Result<Answer> | null> {
  const atMs = ctx.now();
  const memory = memoryOf(ctx);
  const state = verb.recall === undefined ? null : memory.find(ctx.environment, verb.user, atMs);
  const found = state === null ? null : (verb.recall?.(state) ?? null);
  if (state === null || found === null || verb.members?.some((id) => !state.members.has(id))) return null;
  const { accountId, userId, settingsSnapshot, recurringDueAtMs, seq: lastSeq } = state;
  const writing = { environmentId: ctx.environment.id, userId, accountId, nowMs: atMs, by: readActor(ctx) };
  const rows = [...state.balances.values()];
  const remembered = {
    ...writing,
    ...NOTHING_DUE,
    lastSeq,
    settingsSnapshot,
    recurringDueAtMs,
    rows,
    counters: null,
    members: null,
  };
  const account = settleAccount(remembered);
  const decision = decisionOrRejection(() => verb.decide(found, account));
  if (decision instanceof PurserError || decision.kind === "replay" || decision.needsFreshRead === true) return null;
  try {
    const rows = await commit(ctx, account, { decision, before: state, isOld: true });
    return { answer: decision.answer(rows) };
  } catch (error) {
    if (!isConflict(error)) throw error;
    memory.readFirst(ctx.environment, userId, atMs);
    return null;
  }
}

import { type Constraint, constraintOf } from "../db/constraint.ts";
import { retryOnConflict } from "../db/retry-on-conflict.ts";
import { batch, type RowsOf, type Statement } from "../db/sql.ts";
import { PurserError } from "../errors.ts";
import type { Ctx } from "../runtime.ts";
import { selectAccount, type User, writingValues } from "./account.ts";
import type { PayingRow } from "./balance.ts";
import { type Decision, replay } from "./decision.ts";
import { readHold, selectDueHolds } from "./hold.ts";
import { type AccountState, guardAccount, memoryOf } from "./memory.ts";
import { type AccountAtRead, returnDue, type StateBefore, send } from "./send.ts";

/**
 * The one way to write for a user: read what there is, decide, send one batch; and all of it again when somebody else was
 * faster. A verb says what it reads, what it decides, and nothing else: the return of holds that are due (U8) is done here,
 * also when the verb ends in a refusal or a replay. docs/architecture.md walks through it.
 */
export interface UserWrite<Reads extends readonly Statement[], Answer> {
  readonly user: User;
  /** Random characters of this write, which spread its repeats. */
  readonly nonce: string;
  /** What must be known to decide, besides the account and its due holds: read with them, in one trip. */
  readonly read: (nowMs: number) => Reads;
  /** Pure, but for ids that were made before. Throws a `PurserError` to refuse. */
  readonly decide: (found: RowsOf<Reads>, account: AccountAtRead) => Decision<Answer>;
  /** What `read` would find, by what this isolate remembers; null when that does not say it. */
  readonly recall?: (state: AccountState) => RowsOf<Reads> | null;
  /** All balances that may be able to pay, among what was read: to be remembered. */
  readonly balances?: (found: RowsOf<Reads>) => readonly PayingRow[];
  /** The refusal that a constraint means, where it does not mean that somebody was faster. */
  readonly refusals?: Readonly<Partial<Record<Constraint, () => PurserError>>>;
}

/** What the database refuses when it has changed since it was read. */
const CONFLICTS: ReadonlySet<Constraint> = new Set([
  "credit_balances_remaining_not_negative",
  "credit_balances_external_ref",
  "credit_balances_id",
  "credit_balances_revoked",
  "credit_balances_revoked_once",
  "credit_adjustments_primary_key",
  "usage_events_event_id",
  "reservations_primary_key",
  "reservations_settled_once",
]);

/**
 * Runs a write. Two trips: what there is, and the batch; one where this isolate remembers the account well enough, and for a
 * replay or a refusal when no hold is due. Null when there is no such user, who was named by a reservation or a balance; a
 * user named by id may be one who has no account yet.
 *
 * Throws what `decide` throws, and `temporarily_unavailable` when it was overtaken too often.
 */
export async function writeForUser<const Reads extends readonly Statement[], Answer>(
  ctx: Ctx,
  verb: UserWrite<Reads, Answer>,
): Promise<Answer | null> {
  const onMemory = await writeOnMemory(ctx, verb);
  if (onMemory !== null) return onMemory.answer;
  let refusal: PurserError | null = null;
  return retryOnConflict(CONFLICTS, verb.nonce, async () => {
    const { account, found } = await readAccount(ctx, verb);
    if (account === null) return null;
    const outcome = refusal ?? (await decideAndSend(ctx, verb, account, found));
    if (!(outcome instanceof PurserError)) return outcome.answer;
    // A batch that was refused took the return of holds with it: that is done now, by itself.
    refusal = outcome;
    await returnDue(ctx, account);
    throw refusal;
  });
}

/** Returns the holds of a user that are due, for the cron. */
export async function returnDueHolds(ctx: Ctx, user: User, nonce: string): Promise<void> {
  await writeForUser(ctx, { user, nonce, read: () => [], decide: () => replay(null) });
}

async function readAccount<const Reads extends readonly Statement[]>(
  ctx: Ctx,
  { user, read }: Pick<UserWrite<Reads, unknown>, "user" | "read">,
) {
  const atMs = ctx.now();
  const [[stored], due, ...rest] = await batch(ctx.db, [
    selectAccount(ctx, user, {}),
    selectDueHolds(ctx, user, { nowMs: atMs }),
    ...read(atMs),
  ] as const);
  const userId = stored?.userId ?? ("userId" in user ? user.userId : null);
  const account: AccountAtRead | null =
    userId === null
      ? null
      : {
          environmentId: ctx.environment.id,
          userId,
          accountId: stored?.accountId ?? null,
          nowMs: atMs,
          lastSeq: stored?.lastSeq ?? 0,
          due: due.map(readHold),
        };
  // The rest of the batch are the rows of the verb's own statements, in their order.
  return { account, found: rest as RowsOf<Reads> };
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
  ctx: Ctx,
  verb: UserWrite<Reads, Answer>,
  account: AccountAtRead,
  found: RowsOf<Reads>,
): Promise<Result<Answer> | PurserError> {
  const decision = decide(() => verb.decide(found, account));
  if (decision instanceof PurserError) return decision;
  if (decision.kind === "replay") {
    await returnDue(ctx, account);
    return { answer: decision.answer };
  }
  try {
    return await send(ctx, account, decision, stateBeforeOf(ctx, verb, account, found), []);
  } catch (error) {
    const constraint = constraintOf(error);
    const refusal = constraint === null ? undefined : verb.refusals?.[constraint];
    if (refusal === undefined) throw error;
    return refusal();
  }
}

/** What was known of the account when the write was decided; null when it is not enough to be remembered. */
function stateBeforeOf<const Reads extends readonly Statement[]>(
  ctx: Ctx,
  verb: Pick<UserWrite<Reads, unknown>, "user" | "balances">,
  account: AccountAtRead,
  found: RowsOf<Reads>,
): StateBefore | null {
  if (account.due.length > 0) return null;
  const none = new Map<string, never>();
  if (verb.balances !== undefined) {
    const balances = new Map(verb.balances(found).map((row) => [row.id, row]));
    return { balances, reservations: none, seq: account.lastSeq };
  }
  if (account.accountId === null) return { balances: none, reservations: none, seq: 0 };
  return memoryOf(ctx).find(ctx.environment, verb.user, account.nowMs);
}

/** In one trip, on what this isolate remembers; null when that is not enough, or was overtaken. Refuses and repeats nothing. */
async function writeOnMemory<const Reads extends readonly Statement[], Answer>(
  ctx: Ctx,
  verb: UserWrite<Reads, Answer>,
): Promise<Result<Answer> | null> {
  const atMs = ctx.now();
  const memory = memoryOf(ctx);
  const state = verb.recall === undefined ? null : memory.find(ctx.environment, verb.user, atMs);
  const found = state === null ? null : (verb.recall?.(state) ?? null);
  if (state === null || found === null) return null;
  const { accountId, userId } = state;
  const account = { environmentId: ctx.environment.id, userId, accountId, nowMs: atMs, lastSeq: state.seq, due: [] };
  const decision = decide(() => verb.decide(found, account));
  if (decision instanceof PurserError || decision.kind === "replay" || decision.isShort === true) return null;
  try {
    return await send(ctx, account, decision, state, [guardAccount({ ...writingValues(account), seq: state.seq })]);
  } catch (error) {
    const constraint = constraintOf(error);
    if (constraint === null || !(constraint === "guard_account" || CONFLICTS.has(constraint))) throw error;
    memory.readFirst(ctx.environment, userId, atMs);
    return null;
  }
}

import { type Constraint, constraintOf } from "../db/constraint.ts";
import { retryOnConflict } from "../db/retry-on-conflict.ts";
import { batch, type RowsOf, type Statement } from "../db/sql.ts";
import { PurserError } from "../errors.ts";
import type { Ctx } from "../runtime.ts";
import { createAccount, selectAccount, type User, valuesOf, type Writing } from "./account.ts";
import type { PayingRow } from "./balance.ts";
import { type Hold, readHold, selectDueHolds, settleHolds } from "./hold.ts";
import { afterWrite, type Changes, guardAccount, memoryOf, type Remembered, selectStanding } from "./memory.ts";

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
  readonly decide: (found: RowsOf<Reads>, account: Account) => Decision<Answer>;
  /** What `read` would find, by what this isolate remembers; null when that does not say it. */
  readonly recall?: (known: Remembered) => RowsOf<Reads> | null;
  /** All balances that may be able to pay, among what was read: to be remembered. */
  readonly balances?: (found: RowsOf<Reads>) => readonly PayingRow[];
  /** The refusal that a constraint means, where it does not mean that somebody was faster. */
  readonly refusals?: Readonly<Partial<Record<Constraint, () => PurserError>>>;
}

/** A user's account at the one moment of an attempt. */
export interface Account extends Writing {
  /** Of the ledger; 0 where it is empty. */
  readonly lastSeq: number;
  /** Holds that nobody settled in time. They are returned whatever is decided, so plan as if they had come back. */
  readonly due: readonly Hold[];
}

export type Decision<Answer> = Replay<Answer> | Write<Answer>;

/** Nothing is written: it was done before. */
interface Replay<Answer> {
  readonly kind: "replay";
  readonly answer: Answer;
}

interface Write<Answer> {
  readonly kind: "write";
  readonly statements: readonly Statement[];
  readonly answer: (rows: readonly unknown[][]) => Answer;
  /** What it does to what this isolate remembers of the account; absent: the account is forgotten. */
  readonly changes?: Changes | undefined;
  /** Whether it says that credits are missing, which is never said without reading what there is. */
  readonly isShort?: boolean | undefined;
}

export function replay<Answer>(answer: Answer): Decision<Answer> {
  return { kind: "replay", answer };
}

/** A write whose rows nobody asks for. */
export function write<Answer>(
  statements: readonly Statement[],
  answer: () => Answer,
  changes?: Changes,
): Decision<Answer> {
  return { kind: "write", statements, answer, changes };
}

/** A write that is answered by the rows of one of its statements. */
export function writeAround<Row, Answer>(
  parts: {
    readonly before?: readonly Statement[];
    readonly answering: Statement<Row>;
    readonly after?: readonly Statement[];
    readonly changes?: Changes;
    readonly isShort?: boolean;
  },
  answer: (rows: readonly Row[]) => Answer,
): Decision<Answer> {
  const { before = [], answering, after = [], changes, isShort } = parts;
  return {
    kind: "write",
    statements: [...before, answering, ...after],
    // The rows of a batch come in the order of its statements, and this statement's type says what its are.
    answer: (rows) => answer((rows[before.length] ?? []) as Row[]),
    changes,
    isShort,
  };
}

/** What the database refuses when it has changed since it was read. */
const CONFLICTS: ReadonlySet<Constraint> = new Set([
  "credit_balances_remaining_not_negative",
  "credit_balances_remaining_within_bounds",
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
  const [[known], due, ...rest] = await batch(ctx.db, [
    selectAccount(ctx, user, {}),
    selectDueHolds(ctx, user, { nowMs: atMs }),
    ...read(atMs),
  ] as const);
  const userId = known?.userId ?? ("userId" in user ? user.userId : null);
  const account: Account | null =
    userId === null
      ? null
      : {
          environmentId: ctx.environment.id,
          userId,
          accountId: known?.accountId ?? null,
          nowMs: atMs,
          lastSeq: known?.lastSeq ?? 0,
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

type Outcome<Answer> = { readonly answer: Answer };

async function decideAndSend<const Reads extends readonly Statement[], Answer>(
  ctx: Ctx,
  verb: UserWrite<Reads, Answer>,
  account: Account,
  found: RowsOf<Reads>,
): Promise<Outcome<Answer> | PurserError> {
  const decision = decide(() => verb.decide(found, account));
  if (decision instanceof PurserError) return decision;
  if (decision.kind === "replay") {
    await returnDue(ctx, account);
    return { answer: decision.answer };
  }
  try {
    return await send(ctx, account, decision, baseOf(ctx, verb, account, found), []);
  } catch (error) {
    const constraint = constraintOf(error);
    const refusal = constraint === null ? undefined : verb.refusals?.[constraint];
    if (refusal === undefined) throw error;
    return refusal();
  }
}

/** What was known of the account when the write was decided; null when it is not enough to be remembered. */
function baseOf<const Reads extends readonly Statement[]>(
  ctx: Ctx,
  verb: Pick<UserWrite<Reads, unknown>, "user" | "balances">,
  account: Account,
  found: RowsOf<Reads>,
): Base | null {
  if (account.due.length > 0) return null;
  const none = new Map<string, never>();
  if (verb.balances !== undefined) {
    const balances = new Map(verb.balances(found).map((row) => [row.id, row]));
    return { balances, reservations: none, seq: account.lastSeq };
  }
  if (account.accountId === null) return { balances: none, reservations: none, seq: 0 };
  return memoryOf(ctx).find(ctx.environment, verb.user, account.nowMs);
}

type Base = Pick<Remembered, "balances" | "reservations" | "seq">;

/** In one trip, on what this isolate remembers; null when that is not enough, or was overtaken. Refuses and repeats nothing. */
async function writeOnMemory<const Reads extends readonly Statement[], Answer>(
  ctx: Ctx,
  verb: UserWrite<Reads, Answer>,
): Promise<Outcome<Answer> | null> {
  const atMs = ctx.now();
  const memory = memoryOf(ctx);
  const known = verb.recall === undefined ? null : memory.find(ctx.environment, verb.user, atMs);
  const found = known === null ? null : (verb.recall?.(known) ?? null);
  if (known === null || found === null) return null;
  const { accountId, userId } = known;
  const account = { environmentId: ctx.environment.id, userId, accountId, nowMs: atMs, lastSeq: known.seq, due: [] };
  const decision = decide(() => verb.decide(found, account));
  if (decision instanceof PurserError || decision.kind === "replay" || decision.isShort === true) return null;
  try {
    return await send(ctx, account, decision, known, [guardAccount({ ...valuesOf(account), seq: known.seq })]);
  } catch (error) {
    const constraint = constraintOf(error);
    if (constraint === null || !(constraint === "guard_account" || CONFLICTS.has(constraint))) throw error;
    memory.distrust(ctx.environment, userId, atMs);
    return null;
  }
}

/** The only place where a batch for a user is put together: what every write must carry joins it here. */
async function send<Answer>(
  ctx: Ctx,
  account: Account,
  decision: Write<Answer>,
  base: Base | null,
  guards: readonly Statement[],
): Promise<Outcome<Answer>> {
  const { statements, answer, changes } = decision;
  const before = [
    ...guards,
    ...(account.accountId === null ? [createAccount(valuesOf(account))] : []),
    ...settleHolds(account, account.due, { state: "expired" }),
  ];
  const isKept = base !== null && changes !== undefined;
  const standing = isKept ? [standingAfter(account, base, changes)] : [];
  const rows: unknown[][] = await batch(ctx.db, [...before, ...statements, ...standing]);
  if (isKept) remember(ctx, account, base, changes, rows.at(-1));
  else memoryOf(ctx).forget(ctx.environment, account.userId);
  return { answer: answer(rows.slice(before.length)) };
}

function standingAfter(account: Account, base: Base, { issued = [], settled = "" }: Changes) {
  const ids = JSON.stringify(issued.map((row) => row.id));
  return selectStanding({ ...valuesOf(account), sinceSeq: base.seq, settled, issued: ids });
}

function remember(ctx: Ctx, { userId }: Account, base: Base, changes: Changes, rows: unknown[] | undefined): void {
  // The rows of `selectStanding`, which was sent last.
  const [standing] = (rows ?? []) as RowsOf<[ReturnType<typeof standingAfter>]>[0];
  const memory = memoryOf(ctx);
  memory.forget(ctx.environment, userId);
  if (standing === undefined || standing.isRaised === 1) return;
  const { accountId, seq } = standing;
  memory.remember(ctx.environment, { accountId, userId, seq, ...afterWrite(base, changes) });
}

/** Costs nothing when none are due. */
async function returnDue(ctx: Ctx, account: Account): Promise<void> {
  await batch(ctx.db, settleHolds(account, account.due, { state: "expired" }));
}

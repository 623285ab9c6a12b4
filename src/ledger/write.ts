import { type Constraint, constraintOf } from "../db/constraint.ts";
import { retryOnConflict } from "../db/retry-on-conflict.ts";
import { batch, type RowsOf, type Statement } from "../db/sql.ts";
import { PurserError } from "../errors.ts";
import type { Ctx } from "../runtime.ts";
import { createAccount, selectAccount, type User, type Writing } from "./account.ts";
import { type Hold, readHold, selectDueHolds, settleHolds } from "./hold.ts";

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
  /** The refusal that a constraint means, where it does not mean that somebody was faster. */
  readonly refusals?: Readonly<Partial<Record<Constraint, () => PurserError>>>;
}

/** A user's account at the one moment of an attempt. */
export interface Account extends Writing {
  /** Holds that nobody settled in time. They are returned whatever is decided, so plan as if they had come back. */
  readonly due: readonly Hold[];
}

export type Decision<Answer> =
  | { readonly kind: "replay"; readonly answer: Answer }
  | {
      readonly kind: "write";
      readonly statements: readonly Statement[];
      readonly answer: (rows: unknown[][]) => Answer;
    };

/** Nothing is written: it was done before. */
export function replay<Answer>(answer: Answer): Decision<Answer> {
  return { kind: "replay", answer };
}

/** What is written, whose rows nobody asks for. */
export function write<Answer>(statements: readonly Statement[], answer: () => Answer): Decision<Answer> {
  return { kind: "write", statements, answer };
}

/** What is written around the statement that answers, and the answer made of its rows. */
export function writeAround<Row, Answer>(
  before: readonly Statement[],
  answering: Statement<Row>,
  after: readonly Statement[],
  answer: (rows: readonly Row[]) => Answer,
): Decision<Answer> {
  return {
    kind: "write",
    statements: [...before, answering, ...after],
    // The rows of a batch come in the order of its statements, and this statement's type says what its are.
    answer: (rows) => answer((rows[before.length] ?? []) as Row[]),
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
 * Runs a write. Two trips: what there is, and the batch; one for a replay or a refusal when no hold is due. Null when there
 * is no such user, who was named by a reservation or a balance; a user named by id may be one who has no account yet.
 *
 * Throws what `decide` throws, and `temporarily_unavailable` when it was overtaken too often.
 */
export async function writeForUser<const Reads extends readonly Statement[], Answer>(
  ctx: Ctx,
  verb: UserWrite<Reads, Answer>,
): Promise<Answer | null> {
  let refusal: PurserError | null = null;
  return retryOnConflict(CONFLICTS, verb.nonce, async () => {
    const { account, found } = await readAccount(ctx, verb);
    if (account === null) return null;
    if (refusal === null) {
      const decision = attempt(() => verb.decide(found, account));
      if (!(decision instanceof PurserError)) {
        const answer = await send(ctx, account, decision, verb.refusals ?? {});
        if (!(answer instanceof PurserError)) return answer.value;
        // The batch was refused whole, the return of holds with it: that is done now, by itself.
        refusal = answer;
      } else refusal = decision;
    }
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
  { user, read }: UserWrite<Reads, unknown>,
) {
  const atMs = ctx.now();
  const [accounts, due, ...rest] = await batch(ctx.db, [
    selectAccount(ctx, user, {}),
    selectDueHolds(ctx, user, { nowMs: atMs }),
    ...read(atMs),
  ] as const);
  const [known] = accounts;
  const userId = known?.userId ?? ("userId" in user ? user.userId : null);
  const account: Account | null =
    userId === null
      ? null
      : {
          environmentId: ctx.environment.id,
          userId,
          accountId: known?.accountId ?? null,
          nowMs: atMs,
          due: due.map(readHold),
        };
  // The rest of the batch are the rows of the verb's own statements, in their order.
  return { account, found: rest as RowsOf<Reads> };
}

function attempt<Answer>(decide: () => Decision<Answer>): Decision<Answer> | PurserError {
  try {
    return decide();
  } catch (error) {
    if (error instanceof PurserError) return error;
    throw error;
  }
}

/** The only place where a batch for a user is put together: whatever every write must carry joins it here. */
async function send<Answer>(
  ctx: Ctx,
  account: Account,
  decision: Decision<Answer>,
  refusals: NonNullable<UserWrite<readonly Statement[], Answer>["refusals"]>,
): Promise<{ readonly value: Answer } | PurserError> {
  if (decision.kind === "replay") {
    await returnDue(ctx, account);
    return { value: decision.answer };
  }
  const before = [
    ...(account.accountId === null ? [createAccount(account)] : []),
    ...settleHolds(account, account.due, { state: "expired" }),
  ];
  try {
    const rows: unknown[][] = await batch(ctx.db, [...before, ...decision.statements]);
    return { value: decision.answer(rows.slice(before.length)) };
  } catch (error) {
    const constraint = constraintOf(error);
    const refusal = constraint === null ? undefined : refusals[constraint];
    if (refusal === undefined) throw error;
    return refusal();
  }
}

/** Costs nothing when none are due. */
async function returnDue(ctx: Ctx, account: Account): Promise<void> {
  await batch(ctx.db, settleHolds(account, account.due, { state: "expired" }));
}

import type { Steps } from "../../db/schema.ts";
import type { Statement } from "../../db/sql.ts";
import { assert, PurserError } from "../../errors.ts";
import type { TenantCtx } from "../../runtime.ts";
import type { SpendableBalance } from "../ledger/balance.ts";
import { burnDown } from "../ledger/burn-down.ts";
import type { NewCount } from "../ledger/counters.ts";
import {
  committedFields,
  compareStamp,
  type Decision,
  decisionOrRefusal,
  type Outcome,
  replay,
  type Stamp,
  stampRequest,
  type Write,
} from "../ledger/decision.ts";
import type { StateChanges } from "../ledger/memory.ts";
import type { AccountAtRead } from "../ledger/read-account.ts";
import { selectPayingBalances, spendableAfterDue } from "../ledger/spendable-balances.ts";
import { writeForUser } from "../ledger/write.ts";
import { afterCounts, countUsage } from "../limits/judge.ts";
import { insufficientCredits, noteIfRefused, warnOfCount } from "./plan.ts";
import type { EventOutput } from "./responses.ts";
import type { EventInput } from "./schemas.ts";
import { answerEventRepeat, otherEvent, type StoredEvent, selectEvent, writeEvent } from "./write-event.ts";

/**
 * Records a usage event and debits the balances that pay for it (U1 to U4). Throws `idempotency_conflict`, and
 * `insufficient_credits` or `usage_limit_reached`, in which case nothing is recorded and the same id may be used again.
 */
export async function recordEvent(ctx: TenantCtx, input: EventInput): Promise<Outcome<EventOutput>> {
  const { userId, eventId } = input;
  const stamp = await stampEvent(ctx, input);
  const recorded = await noteIfRefused(ctx, input, () =>
    writeForUser(ctx, {
      user: { userId },
      read: (nowMs) => [selectEvent(ctx, eventId), selectPayingBalances(ctx, { userId }, { nowMs })],
      recall: ({ balances }) => [[], [...balances.values()]],
      balances: ([, rows]) => rows,
      decide: ([[stored], rows], account) =>
        decideEvent(ctx, account, { input, stamp, stored, balances: spendableAfterDue(rows, account) }),
    }),
  );
  assert(recorded !== null, "a user named by id is never unknown");
  warnOfCount(ctx, input.quantities, recorded.output.debits);
  return recorded;
}

export function stampEvent(ctx: TenantCtx, input: EventInput): Promise<Stamp> {
  return stampRequest(ctx, ["event"], input, ["userId", "event", "model", ...committedFields]);
}

interface EventToDecide {
  readonly input: EventInput;
  readonly stamp: Stamp;
  /** The stored event with the same id. */
  readonly stored: StoredEvent | undefined;
  /** The balances that can pay, in spending order. */
  readonly balances: readonly SpendableBalance[];
}

/** A replay, or the event and its debits. Throws the errors of `recordEvent`. */
function decideEvent(
  ctx: TenantCtx,
  account: AccountAtRead,
  { input, stamp, stored, balances }: EventToDecide,
): Decision<Outcome<EventOutput>> {
  if (stored !== undefined) return replay(answerEventRepeat(input.eventId, stored, stamp));
  const counts = countUsage(account, input, input.onShortage === "reject");
  const payment = burnDown(balances, input);
  if (payment.uncovered !== null && input.onShortage === "reject") {
    throw insufficientCredits(payment.uncovered, payment, balances, input);
  }
  const { model = null } = input;
  return writeEvent(ctx, account, { ...input, model, reservationId: null, payment, counts }, stamp);
}

/** An event of a list, with its stamp. */
export interface StampedEvent {
  readonly input: EventInput;
  readonly stamp: Stamp;
}

/** The result of an event: its response or its refusal. */
export type EventResult = EventOutput | PurserError;

/** Makes the response of one event from the batch's rows and the results of earlier events. */
type AnswerOne = (rows: readonly unknown[][], before: readonly EventResult[]) => EventResult;

interface EventsToDecide {
  /** The events of one user, in the order of the list. */
  readonly events: readonly StampedEvent[];
  /** The stored events with their ids. */
  readonly stored: ReadonlyMap<string, StoredEvent>;
  /** The balances that can pay, in spending order. */
  readonly balances: readonly SpendableBalance[];
  /** The refusals of the previous attempt, which this attempt replaces. They hold if that attempt succeeded but its response was lost. */
  readonly refused: Map<StampedEvent, PurserError>;
}

/**
 * Decides the events of one user one after another, and writes them in one batch. Each is decided separately, on the balances that
 * the earlier ones leave. An event with the id of an earlier one in the list is its replay, or conflicts with it.
 */
export function decideEvents(
  ctx: TenantCtx,
  account: AccountAtRead,
  { events, stored, balances, refused }: EventsToDecide,
): Decision<readonly EventResult[]> {
  const statements: Statement[] = [];
  const entries: StateChanges["entries"][number][] = [];
  const messages: NonNullable<Write<unknown>["messages"]>[] = [];
  const answers: AnswerOne[] = [];
  const taken = new Map<string, { readonly place: number; readonly stamp: Stamp }>();
  let isShort = false;
  let left = balances;
  let { counters } = account;
  const counts: NewCount[] = [];
  const wasWritten = events.some(({ input, stamp }) => stored.get(input.eventId)?.requestHash === stamp.stored);
  const stillRefused = new Map(wasWritten ? refused : []);
  refused.clear();
  for (const [place, event] of events.entries()) {
    const { input, stamp } = event;
    const earlier = taken.get(input.eventId);
    if (earlier !== undefined) {
      answers.push(repeatOf(earlier, stamp));
      continue;
    }
    const decision =
      stillRefused.get(event) ??
      decisionOrRefusal(() =>
        decideEvent(ctx, { ...account, counters }, { input, stamp, stored: stored.get(input.eventId), balances: left }),
      );
    if (decision instanceof PurserError) {
      refused.set(event, decision);
      // A refusal must not rely on memory, so the events are read first.
      isShort = true;
      answers.push(() => decision);
    } else if (decision.kind === "replay") {
      answers.push(() => decision.answer.output);
    } else {
      const at = statements.length;
      statements.push(...decision.statements);
      answers.push((rows) => decision.answer(rows.slice(at)).output);
      taken.set(input.eventId, { place, stamp });
      if (decision.messages !== undefined) messages.push(decision.messages);
      if (decision.isShort === true) isShort = true;
      const own = decision.changes?.entries ?? [];
      entries.push(...own);
      left = afterEntries(left, own);
      counts.push(...(decision.counts ?? []));
      counters = afterCounts(counters, decision.counts ?? []);
    }
  }
  const answer = (rows: readonly unknown[][]): readonly EventResult[] => {
    const results: EventResult[] = [];
    for (const answerOne of answers) results.push(answerOne(rows, results));
    return results;
  };
  return statements.length === 0
    ? replay(answer([]))
    : {
        kind: "write",
        statements,
        answer,
        changes: { entries },
        counts,
        messages: () => messages.flatMap((make) => make()),
        isShort,
      };
}

function repeatOf(earlier: { readonly place: number; readonly stamp: Stamp }, stamp: Stamp): AnswerOne {
  const { stored } = earlier.stamp;
  if (compareStamp(stored, stamp) === "other") return () => otherEvent(stored, stamp);
  return (_, before) => {
    const first = before[earlier.place];
    assert(first !== undefined, "the first of two events with one id comes before the second");
    return first;
  };
}

/** The balances that can still pay. Their order does not depend on the remaining amounts. */
function afterEntries(
  balances: readonly SpendableBalance[],
  entries: StateChanges["entries"],
): readonly SpendableBalance[] {
  const deltas = new Map(entries.map(({ balanceId, deltaSteps }) => [balanceId, deltaSteps]));
  return balances
    .map((balance) => {
      const delta = deltas.get(balance.id);
      return delta === undefined ? balance : { ...balance, remainingSteps: (balance.remainingSteps + delta) as Steps };
    })
    .filter(({ remainingSteps }) => remainingSteps > 0);
}

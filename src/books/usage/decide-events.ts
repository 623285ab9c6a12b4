import type { Steps } from "../../db/schema.ts";
import type { Statement } from "../../db/sql.ts";
import { PurserError } from "../../errors.ts";
import { assert } from "../../lib/assert.ts";
import type { TenantCtx } from "../../runtime.ts";
import type { SpendableBalance } from "../ledger/balance.ts";
import type { NewCount } from "../ledger/counters.ts";
import { type Decision, replay, type Write } from "../ledger/decision.ts";
import type { StateChanges } from "../ledger/memory.ts";
import { compareStamp, type Stamp } from "../ledger/request-hash.ts";
import type { AccountAtRead } from "../ledger/send.ts";
import { afterCounts } from "../limits/judge.ts";
import { decideEvent } from "./events.ts";
import type { EventOutput } from "./responses.ts";
import type { EventInput } from "./schemas.ts";
import { otherEvent, type StoredEvent } from "./stored-event.ts";

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
  const hasLanded = events.some(({ input, stamp }) => stored.get(input.eventId)?.requestHash === stamp.stored);
  const stands = new Map(hasLanded ? refused : []);
  refused.clear();
  for (const [place, event] of events.entries()) {
    const { input, stamp } = event;
    const earlier = taken.get(input.eventId);
    if (earlier !== undefined) {
      answers.push(repeatOf(earlier, stamp));
      continue;
    }
    const decision =
      stands.get(event) ??
      decideOne(() =>
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

function decideOne<Answer>(decide: () => Decision<Answer>): Decision<Answer> | PurserError {
  try {
    return decide();
  } catch (error) {
    if (error instanceof PurserError) return error;
    throw error;
  }
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

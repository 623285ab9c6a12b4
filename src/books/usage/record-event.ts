import type { Statement } from "../../db/sql.ts";
import { type FormsOfId, formsOfId } from "../../db/usage-ids.ts";
import { assert, PurserError } from "../../errors.ts";
import type { TenantCtx } from "../../runtime.ts";
import type { SpendableBalance } from "../ledger/balance.ts";
import { burnDown } from "../ledger/burn-down.ts";
import type { NewCount } from "../ledger/counters.ts";
import {
  type Change,
  committedFields,
  compareFingerprint,
  type Decision,
  decisionOrRejection,
  fingerprintRequest,
  type Outcome,
  type RequestFingerprint,
  replay,
} from "../ledger/decision.ts";
import type { NewEntry } from "../ledger/insert-entries.ts";
import { memberOfUsage } from "../ledger/payer-members.ts";
import { type AccountAtRead, spendableOf } from "../ledger/read-account.ts";
import { apply } from "../ledger/settle.ts";
import { selectPayingBalances } from "../ledger/spendable-balances.ts";
import { writeForUser } from "../ledger/write.ts";
import { afterCounts, countUsage } from "../limits/count-usage.ts";
import { type Prices, PricesUnread, withPrices } from "../prices/prices-in-force.ts";
import { insufficientCredits, noteIfRejected, type PlanInput, warnOfQuantities } from "./plan.ts";
import {
  answerEventRepeat,
  type EventOutput,
  eventConflict,
  type StoredEvent,
  selectEvent,
  writeEvent,
} from "./write-event.ts";

export interface ListedEventOutput extends EventOutput {
  readonly isReplayed?: true | undefined;
}

export interface EventInput extends PlanInput {
  readonly eventId: string;
}

/**
 * Records a usage event and debits the balances that pay for it (U1 to U4). Throws `idempotency_conflict`, and
 * `insufficient_credits` or `usage_limit_reached`, in which case nothing is recorded and the same id may be used again.
 */
export async function recordEvent(ctx: TenantCtx, input: EventInput): Promise<Outcome<EventOutput>> {
  const { userId, eventId } = input;
  const forms = await formsOfId(ctx, eventId);
  const fingerprint = await fingerprintEvent(ctx, input);
  const recorded = await noteIfRejected(ctx, input, () =>
    withPrices(ctx, (prices) =>
      writeForUser(ctx, {
        user: { userId },
        members: membersOfInputs([input]),
        read: (nowMs) => [selectEvent(ctx, forms), ...prices.select([input], nowMs)],
        balances: (nowMs) => selectPayingBalances(ctx, { userId }, { nowMs }),
        recall: ({ settingsSnapshot }) => (prices.canRecall(settingsSnapshot, [input]) ? [[]] : null),
        decide: ([[stored], listed], account) => {
          prices.take(listed);
          return decideEvent(ctx, account, {
            input,
            forms,
            fingerprint,
            stored,
            balances: spendableOf(account),
            prices,
          });
        },
      }),
    ),
  );
  assert(recorded !== null, "a user named by id is never unknown");
  warnOfQuantities(ctx, input, recorded.output.debits);
  return recorded;
}

export function fingerprintEvent(ctx: TenantCtx, input: EventInput): Promise<RequestFingerprint> {
  return fingerprintRequest(ctx, ["event"], input, ["userId", "memberId", "event", "model", ...committedFields]);
}

/** The members that some usages name, each once. */
export const membersOfInputs = (inputs: readonly Pick<PlanInput, "memberId">[]): string[] => [
  ...new Set(inputs.flatMap(({ memberId }) => memberId ?? [])),
];

interface EventToDecide extends FingerprintedEvent {
  /** The stored event with the same id. */
  readonly stored: StoredEvent | undefined;
  /** The balances that can pay, in spending order. */
  readonly balances: readonly SpendableBalance[];
  readonly prices: Prices;
  /** The sums by balance of the entries of earlier events of a list. */
  readonly sums?: Map<string, number>;
}

/** Decides a replay, or to write the event and its debits. Throws the errors of `recordEvent`. */
function decideEvent(
  ctx: TenantCtx,
  account: AccountAtRead,
  { input, forms, fingerprint, stored, balances, prices, sums }: EventToDecide,
): Decision<Outcome<EventOutput>> {
  if (stored !== undefined) {
    const sent = { ...input, accountId: account.accountId, model: input.model ?? null, reservation: null };
    return replay(answerEventRepeat(input.eventId, stored, fingerprint, sent));
  }
  const memberId = memberOfUsage(account.members, input.memberId, input.onShortage === "partial");
  // The texts of an erased member are not kept (ME6).
  const properties = memberId === null && input.memberId !== undefined ? undefined : input.properties;
  const priced = { ...input, memberId, properties, ...prices.priceEvent(account, input) };
  const counts = countUsage(account, priced, input.onShortage === "reject");
  const payment = burnDown(balances, priced);
  if (payment.uncovered !== null && input.onShortage === "reject") {
    throw insufficientCredits(payment.uncovered, payment, balances, priced);
  }
  const { model = null } = input;
  const event = { ...priced, forms, model, reservationId: null, payment, counts };
  return writeEvent(ctx, account, event, fingerprint, sums === undefined ? {} : { sums });
}

/** An event with the forms of its id, and its fingerprint. */
export interface FingerprintedEvent {
  readonly input: EventInput;
  readonly forms: FormsOfId;
  readonly fingerprint: RequestFingerprint;
}

/** The result of an event: its response or its rejection. */
export type EventResult = ListedEventOutput | PurserError;

/** Returns the result of one event from the batch's rows and the results of earlier events. */
type ResultOf = (rows: readonly unknown[][], earlierResults: readonly EventResult[]) => EventResult;

interface EventsToDecide {
  /** The events of one user, in the order of the list. */
  readonly events: readonly FingerprintedEvent[];
  /** The stored events with their ids. */
  readonly stored: ReadonlyMap<string, StoredEvent>;
  /** The balances that can pay, in spending order. */
  readonly balances: readonly SpendableBalance[];
  /**
   * The rejections of the previous attempt, which this attempt replaces. They still apply if that attempt wrote the other events but its
   * response was lost.
   */
  readonly rejected: Map<FingerprintedEvent, PurserError>;
  readonly prices: Prices;
}

/**
 * Decides the events of one user one after another, and writes them in one batch: their rows, and then the debits of all. Each event is
 * decided on the balances that the earlier ones leave. An event with the id of an earlier event in the list is a replay of that event, or conflicts with it.
 */
export function decideEvents(
  ctx: TenantCtx,
  account: AccountAtRead,
  { events, stored, balances, rejected, prices }: EventsToDecide,
): Decision<readonly EventResult[]> {
  const statements: Statement[] = [];
  const entries: NewEntry[] = [];
  const sums = new Map<string, number>();
  const messages: NonNullable<Change<unknown>["messages"]>[] = [];
  const resultsOf: ResultOf[] = [];
  const eventsById = new Map<string, { readonly place: number; readonly fingerprint: RequestFingerprint }>();
  let needsFreshRead = false;
  let left = balances;
  let { counters } = account;
  const counts: NewCount[] = [];
  const members: string[] = [];
  const wasWritten = events.some(
    ({ input, fingerprint }) => stored.get(input.eventId)?.requestHash === fingerprint.stored,
  );
  const stillRejected = new Map(wasWritten ? rejected : []);
  rejected.clear();
  const unread: PricesUnread[] = [];
  for (const [place, event] of events.entries()) {
    const { input, fingerprint } = event;
    const earlier = eventsById.get(input.eventId);
    if (earlier !== undefined) {
      resultsOf.push(resultOfRepeat(earlier, fingerprint));
      continue;
    }
    const decision =
      stillRejected.get(event) ??
      decisionOrUnread(() => {
        const toDecide = { ...event, stored: stored.get(input.eventId), balances: left, prices, sums };
        return decideEvent(ctx, { ...account, counters }, toDecide);
      });
    if (decision instanceof PricesUnread) {
      unread.push(decision);
    } else if (decision instanceof PurserError) {
      rejected.set(event, decision);
      // `needsFreshRead` makes `writeForUser` read first, because a rejection must not rely on memory.
      needsFreshRead = true;
      resultsOf.push(() => decision);
    } else if (decision.kind === "replay") {
      const { output, replayed } = decision.answer;
      resultsOf.push(() => (replayed ? { ...output, isReplayed: true } : output));
    } else {
      const at = statements.length;
      statements.push(...decision.statements);
      resultsOf.push((rows) => decision.answer(rows.slice(at)).output);
      eventsById.set(input.eventId, { place, fingerprint });
      if (decision.messages !== undefined) messages.push(decision.messages);
      if (decision.needsFreshRead === true) needsFreshRead = true;
      members.push(...(decision.members ?? []));
      const newEntries = decision.entries ?? [];
      entries.push(...newEntries);
      // The order of the balances does not depend on their amounts.
      left = apply(left, newEntries).filter(({ remainingMinor }) => remainingMinor > 0);
      counts.push(...(decision.counts ?? []));
      counters = afterCounts(counters, decision.counts ?? []);
    }
  }
  // All are read at once, and then the list is decided again.
  if (unread.length > 0) {
    for (const [event, rejection] of stillRejected) rejected.set(event, rejection);
    throw joinUnread(unread);
  }
  const answer = (rows: readonly unknown[][]): readonly EventResult[] => {
    const results: EventResult[] = [];
    for (const resultOf of resultsOf) results.push(resultOf(rows, results));
    return results;
  };
  return statements.length === 0
    ? replay(answer([]))
    : {
        kind: "write",
        statements,
        entries,
        answer,
        remembers: {},
        counts,
        members,
        messages: () => messages.flatMap((make) => make()),
        needsFreshRead,
      };
}

/** The prices that several events lack, to be read at once. */
function joinUnread(unread: readonly PricesUnread[]): PricesUnread {
  const versions = new Set(unread.flatMap((one) => one.versions));
  const repairs = unread.flatMap((one) => one.repairs);
  const moments = unread.flatMap((one) => one.moments);
  return new PricesUnread({
    ...{ versions: [...versions], moments },
    repairs: [...new Map(repairs.map((repair) => [repair.key, repair])).values()],
  });
}

function decisionOrUnread<Answer>(decide: () => Decision<Answer>): Decision<Answer> | PurserError | PricesUnread {
  try {
    return decisionOrRejection(decide);
  } catch (error) {
    if (error instanceof PricesUnread) return error;
    throw error;
  }
}

function resultOfRepeat(
  earlier: { readonly place: number; readonly fingerprint: RequestFingerprint },
  fingerprint: RequestFingerprint,
): ResultOf {
  const { stored } = earlier.fingerprint;
  if (compareFingerprint(stored, fingerprint) === "other") return () => eventConflict(stored, fingerprint);
  return (_, earlierResults) => {
    const first = earlierResults[earlier.place];
    assert(first !== undefined, "the results are made in the order of the events");
    return first instanceof PurserError ? first : { ...first, isReplayed: true };
  };
}

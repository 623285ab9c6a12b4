import { env } from "cloudflare:workers";
import { expect } from "vitest";
import type { Pair } from "./history.ts";
import { expiryText, fromMinor, timeText, type Unit, usageDetails } from "./model-amounts.ts";

/** The message types of a random history's endpoint. alerts-model.ts has the model of alerts. */
export const MESSAGE_TYPES = [
  "credits.granted",
  "credits.re*",
  "credits.adjusted",
  "reservation.*",
  "usage.recorded",
  "payment.*",
  "usage.limit_reached",
];

interface Entry {
  readonly userId: string;
  readonly seq: number;
  readonly balanceId: string;
  readonly unit: Unit;
  readonly delta: number;
  readonly after: number;
  readonly reason: string;
  readonly eventId: string | null;
  readonly reservationId: string | null;
  readonly note: string | null;
}

interface SentMessage {
  readonly type: string;
  readonly subject: string | null;
  readonly deliveries: number;
  // The fields are compared with the model's.
  // biome-ignore lint/suspicious/noExplicitAny: see above
  readonly data: any;
}

const isBack = ({ reservationId, reason }: Entry, holdId: string) =>
  reservationId === holdId && reason !== "admin_adjust";
const lastSeq = (entries: readonly Entry[]): number | null => entries.at(-1)?.seq ?? null;

/** The messages and ledger entries of an environment. Erased users are left out, because they cause no messages. */
async function read(environmentId: number): Promise<{ entries: Entry[]; messages: SentMessage[] }> {
  const [entries, messages] = await env.DB.batch([
    env.DB.prepare(
      `SELECT a.user_id AS userId, l.seq AS seq, b.id AS balanceId, b.unit AS unit, l.delta_minor AS delta,
         l.balance_after_minor AS after, l.reason AS reason, u.event_id AS eventId, coalesce(r.id, u.reservation_id) AS reservationId,
         l.note AS note
       FROM accounts AS a CROSS JOIN credit_ledger AS l ON l.account_id = a.id
       CROSS JOIN credit_balances AS b ON b.account_id = l.account_id AND b.grant_seq = l.grant_seq
       LEFT JOIN usage_events AS u ON u.account_id = l.account_id AND u.seq = l.event_seq
       LEFT JOIN reservations AS r ON r.account_id = l.account_id AND r.reservation_number = l.reservation_number
       WHERE a.environment_id = ? AND a.is_erased = 0 ORDER BY l.seq`,
    ).bind(environmentId),
    env.DB.prepare(
      `SELECT m.type AS type, m.subject AS subject, m.data AS data, (
         SELECT count(*) FROM webhook_endpoints AS w
         CROSS JOIN webhook_deliveries AS d ON d.endpoint_id = w.id AND d.message_id = m.id WHERE w.environment_id = m.environment_id
       ) AS deliveries FROM webhook_messages AS m WHERE m.environment_id = ?`,
    ).bind(environmentId),
  ]);
  const rows = (messages?.results ?? []) as (Omit<SentMessage, "data"> & { data: string })[];
  return {
    entries: (entries?.results ?? []) as Entry[],
    messages: rows.map((row) => ({ ...row, data: JSON.parse(row.data) })),
  };
}

/** The model's messages, each with the `seq` of the last entry of its effect (H3), except for refunds. */
function expectedOf(
  { model, packs, refunds, paymentBalanceChanges }: Pair,
  entries: readonly Entry[],
  refunded: readonly Entry[],
): Omit<SentMessage, "deliveries">[] {
  const expected: { type: string; subject: string; data: object }[] = [];
  const addExpected = (type: string, userId: string, data: object, seq: number | null) =>
    expected.push({ type, subject: userId, data: { userId, ...data, seq } });
  const amountOf = (entry: Entry) => ({
    balanceId: entry.balanceId,
    unit: entry.unit,
    delta: fromMinor(entry.unit, BigInt(entry.delta)),
    remaining: fromMinor(entry.unit, BigInt(entry.after)),
  });

  // The entries of a grant follow each other in the ledger.
  const issued = new Map(model.balances.map((b) => [b.id, b]));
  for (const ofUser of Map.groupBy(entries, ({ userId }) => userId).values()) {
    const granted = ofUser.filter(({ reason }) => reason === "grant");
    for (let at = 0; at < granted.length; ) {
      const first = issued.get(granted[at]?.balanceId ?? "");
      if (first === undefined) throw new Error("The model does not know a balance.");
      const items = granted.slice(at, at + (packs.find(({ packId }) => packId === first.packId)?.items.length ?? 0));
      at += items.length;
      const balances = items
        .flatMap(({ balanceId }) => issued.get(balanceId) ?? [])
        .map((b) => ({
          ...{ balanceId: b.id, packId: b.packId, packItemId: b.packItemId, unit: b.unit },
          ...{ initial: b.initial, expiresAt: expiryText(b.expiresAt) },
        }));
      addExpected(
        "credits.granted",
        first.userId,
        { balances, externalRef: first.ref, source: "purchase", recurringId: null },
        lastSeq(items),
      );
    }
  }
  for (const [eventId, { use, body, at: occurredMs }] of model.events) {
    const hold = [...model.holds.values()].find((each) => each.eventId === eventId);
    const paid = entries.filter((entry) => entry.eventId === eventId);
    const returned = hold?.state === "committed" ? entries.filter((entry) => isBack(entry, hold.id)) : [];
    const { event, model: name = null } = use;
    const data = {
      ...{
        event,
        model: name,
        memberId: use.memberId ?? null,
        ...usageDetails(use),
      },
      ...{ occurredAt: timeText(occurredMs), properties: null, ...body },
    };
    addExpected("usage.recorded", use.userId, data, lastSeq(paid) ?? lastSeq(returned));
  }
  for (const hold of model.holds.values()) {
    if (hold.state !== "expired") continue;
    const back = entries.filter((entry) => isBack(entry, hold.id) && entry.eventId === null);
    const holds = hold.legs.map(([{ id: balanceId, packId, unit }, minor]) => ({
      ...{ balanceId, packId, unit, amount: fromMinor(unit, minor) },
    }));
    const data = { reservationId: hold.id, memberId: hold.use.memberId ?? null, event: hold.use.event, holds };
    addExpected("reservation.expired", hold.use.userId, data, holds.length === 0 ? null : lastSeq(back));
  }
  for (const { userId, body } of refunds) addExpected("credits.refunded", userId, body, null);
  // Settlements take amounts from returns that are owed or that belong to a revoked balance.
  for (const entry of entries.filter(
    ({ reason, reservationId }) => reason === "admin_adjust" && reservationId !== null,
  )) {
    const isIt = ({ b, holdId }: { b: { id: string }; holdId: string }) =>
      b.id === entry.balanceId && holdId === entry.reservationId;
    const { isPayment, b } = model.clawbacks.find(isIt) ?? {};
    if (isPayment) {
      addExpected("payment.taken", entry.userId, { paymentKey: b?.paymentKey, balances: [amountOf(entry)] }, entry.seq);
    } else addExpected("credits.adjusted", entry.userId, { ...amountOf(entry), note: entry.note }, entry.seq);
  }
  // The ledger has the changes by payments in order.
  const ofStripe = entries.filter(
    ({ reason, reservationId, note }) =>
      reason === "admin_adjust" && reservationId === null && note?.startsWith("Stripe "),
  );
  for (const { type, userId, paymentKey, note, entries: count } of paymentBalanceChanges) {
    const ofChange = ofStripe.filter((entry) => entry.userId === userId && entry.note === note).slice(0, count);
    for (const entry of ofChange) ofStripe.splice(ofStripe.indexOf(entry), 1);
    // A change of 0 sends no message (S4).
    if (ofChange.every(({ delta }) => delta === 0)) continue;
    addExpected(type, userId, { paymentKey, balances: ofChange.map(amountOf) }, lastSeq(ofChange));
  }
  // The other `admin_adjust` entries are adjustments and revokes.
  const byHand = entries.filter(({ reason, reservationId }) => reason === "admin_adjust" && reservationId === null);
  for (const entry of byHand) {
    if (refunded.includes(entry) || entry.note?.startsWith("Stripe ")) continue;
    const type = entry.note === "by hand" ? "credits.adjusted" : "credits.revoked";
    addExpected(type, entry.userId, { ...amountOf(entry), note: entry.note }, entry.seq);
  }
  return expected;
}

/** The entries of a refund's message: one for each balance, up to its `seq`. */
function entriesOfRefund({ data }: SentMessage, entries: readonly Entry[]): Entry[] {
  const { userId, seq, balances } = data;
  const ofRefund = entries.filter(
    (entry) => entry.userId === userId && entry.seq > seq - balances.length && entry.seq <= seq,
  );
  const inLedger = ofRefund.map(({ balanceId, unit, delta }) => [balanceId, fromMinor(unit, BigInt(-delta))]);
  const inMessage = balances.map((balance: { balanceId: string; taken: number }) => [balance.balanceId, balance.taken]);
  expect(inLedger).toEqual(inMessage);
  return ofRefund;
}

/** Sorts fields, so that equal messages have equal texts. */
const inOrder = (value: unknown): unknown =>
  Array.isArray(value)
    ? value.map(inOrder)
    : value !== null && typeof value === "object"
      ? Object.fromEntries(
          Object.entries(value)
            .sort(([a], [b]) => (a < b ? -1 : 1))
            .map(([k, v]) => [k, inOrder(v)]),
        )
      : value;

/** Expects exactly one message for each effect in the model and no other message. A user's messages must differ in `seq`. */
export async function compareMessages(pair: Pair, where: string): Promise<void> {
  const { entries, messages: all } = await read(pair.environmentId);
  const messages = all.filter(({ type }) => type !== "usage.limit_reached");
  const ofLimits = all.filter(({ type }) => type === "usage.limit_reached");
  // test/worker/books/limits tests the other fields of messages about limits.
  const reached = ofLimits.map(({ data: { userId, memberId, limitId, resetsAt } }) =>
    JSON.stringify({ userId, memberId, limitId, resetsAt }),
  );
  const expected = [...pair.model.limits.reported.values()].map((report) => JSON.stringify(report));
  expect(reached.sort(), `limits reached ${where}`).toEqual(expected.sort());
  const refunded = messages.filter(({ type }) => type === "credits.refunded");
  const ofRefunds = refunded.flatMap((message) => entriesOfRefund(message, entries));
  const text = (message: Omit<SentMessage, "deliveries">) => JSON.stringify(inOrder(message));
  const actual = messages.map(({ deliveries, ...message }) => {
    expect(deliveries, where).toBe(1);
    return text(message.type === "credits.refunded" ? { ...message, data: { ...message.data, seq: null } } : message);
  });
  expect(actual.sort(), `messages ${where}`).toEqual(expectedOf(pair, entries, ofRefunds).map(text).sort());
  for (const ofUser of Map.groupBy(messages, ({ subject }) => subject).values()) {
    const seqs = ofUser.flatMap(({ data }) => data.seq ?? []);
    expect(new Set(seqs).size, where).toBe(seqs.length);
  }
}

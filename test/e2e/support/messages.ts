import { expect } from "vitest";
import type { Message } from "./receiver.ts";

/** The threshold of the storm's alert on all credits of a user. */
export const BELOW_CENTS = 95;
const MINOR_OF_CENT = 1_000_000;

interface Entry {
  readonly userId: string;
  readonly seq: number;
  readonly balanceId: string;
  readonly delta: number;
  readonly reason: string;
  readonly eventId: string | null;
  readonly reservationId: string | null;
}

/** Counts how often a user's credits, including holds, fell below a number of steps. Each fall counts once until the credits rise again. */
function crossings(entries: readonly Entry[], minor: number): number {
  let [total, count, isArmed] = [0, 0, true];
  for (const { reason, delta } of entries) {
    if (reason.startsWith("reservation_")) continue;
    const before = total;
    total += delta;
    if (delta > 0 && total >= minor) isArmed = true;
    if (delta > 0 || before < minor || total >= minor || !isArmed) continue;
    count++;
    isArmed = false;
  }
  return count;
}

const statements = {
  messages: "SELECT id, type, data FROM webhook_messages WHERE environment_id = ? ORDER BY id",
  entries: `SELECT a.user_id AS userId, l.seq AS seq, b.id AS balanceId, l.delta_minor AS delta, l.reason AS reason,
       u.event_id AS eventId, coalesce(r.id, u.reservation_id) AS reservationId
     FROM accounts AS a CROSS JOIN credit_ledger AS l ON l.account_id = a.id
     CROSS JOIN credit_balances AS b ON b.account_id = l.account_id AND b.grant_seq = l.grant_seq
     LEFT JOIN usage_events AS u ON u.account_id = l.account_id AND u.seq = l.event_seq
     LEFT JOIN reservations AS r ON r.account_id = l.account_id AND r.reservation_number = l.reservation_number WHERE a.environment_id = ? ORDER BY a.id, l.seq`,
  events: `SELECT a.user_id AS userId, u.event_id AS eventId FROM usage_events AS u
     CROSS JOIN accounts AS a ON a.id = u.account_id WHERE u.environment_id = ?`,
  expired: "SELECT id FROM reservations WHERE environment_id = ? AND state = 'expired'",
};

/** Reads in one batch, because requests may still be running. */
async function read(db: D1Database, environmentId: number) {
  const found = await db.batch(Object.values(statements).map((sql) => db.prepare(sql).bind(environmentId)));
  const [messages, entries, events, expired] = found.map(({ results }) => results);
  return {
    messages: (messages as { id: string; type: string; data: string }[]).map(
      ({ data, ...row }): Message => ({ ...row, data: JSON.parse(data) }),
    ),
    entries: entries as Entry[],
    events: events as { userId: string; eventId: string }[],
    expired: expired as { id: string }[],
  };
}

/**
 * Expects exactly one message for every effect of an environment, and no other message. Effects are grants, events, adjustments,
 * expired reservations and crossed alerts. A message's `seq` is that of the last entry of its effect.
 */
export async function expectMessages(db: D1Database, environmentId: number): Promise<readonly Message[]> {
  const { messages, entries, events, expired } = await read(db, environmentId);
  const of = (type: string) => messages.filter((message) => message.type === type);
  const lastSeq = (some: readonly Entry[]) => some.at(-1)?.seq ?? null;
  const sorted = (rows: readonly unknown[]) => rows.map((row) => JSON.stringify(row)).sort();

  const granted = entries.filter(({ reason }) => reason === "grant");
  const messageBalances = of("credits.granted").flatMap(({ data }) => {
    const ids: string[] = data.balances.map(({ balanceId }: { balanceId: string }) => balanceId);
    const own = granted.filter(({ balanceId }) => ids.includes(balanceId));
    expect(data.seq).toBe(lastSeq(own));
    return ids.map((id) => [data.userId, id]);
  });
  expect(sorted(messageBalances)).toEqual(sorted(granted.map(({ userId, balanceId }) => [userId, balanceId])));

  const byEvent = Map.groupBy(entries, ({ eventId }) => eventId);
  expect(sorted(of("usage.recorded").map(({ data }) => [data.userId, data.eventId, data.seq]))).toEqual(
    sorted(events.map(({ userId, eventId }) => [userId, eventId, lastSeq(byEvent.get(eventId) ?? [])])),
  );

  const adjusted = entries.filter(({ reason }) => reason === "admin_adjust");
  expect(sorted(of("credits.adjusted").map(({ data }) => [data.userId, data.seq, data.balanceId]))).toEqual(
    sorted(adjusted.map(({ userId, seq, balanceId }) => [userId, seq, balanceId])),
  );

  expect(sorted(of("reservation.expired").map(({ data }) => data.reservationId))).toEqual(
    sorted(expired.map(({ id }) => id)),
  );

  for (const [userId, own] of Map.groupBy(entries, (entry) => entry.userId)) {
    const count = (type: string) => of(type).filter(({ data }) => data.userId === userId).length;
    const expected = { low: crossings(own, BELOW_CENTS * MINOR_OF_CENT), depleted: crossings(own, 1) };
    expect({ low: count("credits.low"), depleted: count("credits.depleted") }, userId).toEqual(expected);
  }
  const types = ["granted", "adjusted", "low", "depleted"].map((name) => `credits.${name}`);
  for (const { type } of messages) expect([...types, "usage.recorded", "reservation.expired"]).toContain(type);
  return messages;
}

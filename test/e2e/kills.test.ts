import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { wrongCounters, wrongDaySums, wrongMeterSums } from "../support/sums-sql.ts";
import { type KillableServer, startKillableServer } from "./support/killable-server.ts";
import { BELOW_CENTS, expectMessages } from "./support/messages.ts";
import { type Receiver, startReceiver } from "./support/receiver.ts";
import { ADMIN_TOKEN } from "./support/server.ts";
import { RANDOM_SEED, SOAK_OPERATIONS } from "./support/soak.ts";
import { isDecided, type Sent, Storm, send } from "./support/storm.ts";

// Many random requests to the built Worker, whose process is killed meanwhile. Acknowledged writes exist exactly once. The others
// are repeated, and then exist exactly once too. An endpoint gets one message for every effect, and no other message (H3, H5).

const KILLS = SOAK_OPERATIONS === 0 ? 1 : Math.max(2, Math.round(SOAK_OPERATIONS / 500));
const CALLERS = 16;
const STORM_MS = { min: 200, max: 1_500 };

let server: KillableServer;
beforeAll(async () => {
  server = await startKillableServer();
}, 120_000);
afterAll(() => server.close());

/** A storm of requests, and the receiver of its messages. */
interface World {
  readonly storm: Storm;
  readonly environmentId: number;
  readonly receiver: Receiver;
  readonly secret: string;
}

async function enter(cycle: number, seed: number): Promise<World> {
  const admin = async (path: string, body: object) => {
    const response = await send(server.url(), { kind: "grant", path: `/api/v1/admin/${path}`, body, key: ADMIN_TOKEN });
    expect(response.status, response.body).toBe(200);
    return JSON.parse(response.body);
  };
  const { appId } = await admin("apps", { name: `Storm ${cycle}` });
  const { key } = await admin(`apps/${appId}/keys`, { kind: "secret", mode: "live" });
  const items = [
    { unit: "cents", amount: 60, matches: [{ event: "call" }], priority: 1 },
    { unit: "cents", amount: 40 },
  ];
  await admin(`apps/${appId}/packs`, { packName: `Wallet ${appId}`, items });
  const users = Array.from({ length: 5 }, (_, index) => `user-${cycle}-${index}`);
  // The receiver sometimes fails or closes the connection.
  let attempts = 0;
  const receiver = await startReceiver((response) => {
    attempts++;
    if (attempts % 13 === 0) return void response.socket?.destroy();
    response.writeHead(attempts % 7 === 0 ? 503 : 204).end();
  });
  const endpoint = { mode: "live", url: receiver.url, types: ["credits.*", "reservation.*", "usage.recorded"] };
  const { secret } = await admin(`apps/${appId}/webhooks`, endpoint);
  await admin(`apps/${appId}/alerts`, { mode: "live", name: "Low", unit: "cents", below: { amount: BELOW_CENTS } });
  const limit = { mode: "live", name: "Cents a day", unit: "cents", amount: 1_000_000, every: "day" };
  await admin(`apps/${appId}/usage-limits`, limit);
  const environment = await (await server.db())
    .prepare("SELECT id FROM environments WHERE app_id = ? AND mode = 'live'")
    .bind(appId)
    .first<{ id: number }>();
  // A period of each user begins during the storm.
  for (const userId of users) {
    const startsAt = new Date(Date.now() + 500).toISOString();
    const body = { recurringId: `rec_${userId}`, userId, packId: `Wallet ${appId}`, every: "day", startsAt };
    const response = await send(server.url(), { kind: "grant", path: "/api/v1/credits/recurring", body, key });
    expect(response.status, response.body).toBe(200);
  }
  const storm = new Storm(seed, { url: server.url(), appId, key, users });
  return { storm, environmentId: environment?.id ?? 0, receiver, secret };
}

/** Runs the cron to send pending messages. Then expects that the receiver has every message, and no other. */
async function expectHeard({ environmentId, receiver, secret }: World): Promise<number> {
  const db = await server.db();
  const pending = `status = 'pending' AND endpoint_id IN (SELECT id FROM webhook_endpoints WHERE environment_id = ?)`;
  for (let run = 0; run < 30; run++) {
    const left = await db
      .prepare(`SELECT count(*) AS n FROM webhook_deliveries WHERE ${pending}`)
      .bind(environmentId)
      .first("n");
    if (left === 0) break;
    await sleep(200);
    // Skips the minutes between attempts.
    await db
      .prepare(`UPDATE webhook_deliveries SET next_attempt_at_ms = 1, due_at_ms = 1 WHERE ${pending}`)
      .bind(environmentId)
      .run();
    await server.cron();
  }
  const messages = await expectMessages(db, environmentId);
  receiver.verifyAll(secret);
  const comparable = (some: readonly { id: string; type: string; data: object }[]) =>
    some.map(({ id, type, data }) => [id, type, data]).sort();
  expect(comparable(receiver.messages())).toEqual(comparable(messages));
  await receiver.close();
  return messages.length;
}

/** Repeats a request until its response is final. A kill does not block a request for long. */
async function sendAgain({ request }: Sent): Promise<Sent["response"]> {
  for (let attempt = 1; attempt <= 20; attempt++) {
    const response = await send(server.url(), request);
    if (isDecided(response)) return response;
  }
  throw new Error(`a ${request.kind} is not decided after 20 attempts`);
}

interface Result {
  readonly eventId?: string;
  readonly reservationId?: string;
  readonly debits?: readonly { readonly balanceId: string; readonly amount: number }[];
  readonly holds?: Result["debits"];
  readonly balances?: readonly { readonly balanceId: string }[];
  readonly results?: readonly Result[];
  readonly error?: object;
  readonly isReplayed?: true;
}

/** The parts of a response that a repeat must contain: all except a grant's remaining amounts, and rejections that may be tried again. */
function kept({ request, response }: Sent): unknown {
  const answer: Result = JSON.parse(response?.body ?? "null");
  if (request.kind === "grant") return answer.balances?.map(({ balanceId }) => balanceId);
  if (request.kind === "list") {
    return answer.results?.map(({ isReplayed: _, ...result }) => (result.error === undefined ? result : null));
  }
  return answer;
}

/** The common parts of a repeat's response and the first one: a rejected event of a list may be recorded by now. */
function expectSame(first: Sent, again: Sent): void {
  const [before, after] = [kept(first), kept(again)];
  if (first.request.kind !== "list") {
    expect(after, JSON.stringify(first)).toEqual(before);
    return;
  }
  for (const [index, result] of (before as unknown[]).entries()) {
    if (result !== null) expect((after as unknown[])[index], JSON.stringify(first)).toEqual(result);
  }
}

/** How often each acknowledged object is in the database, with the amount of its ledger entries. */
async function expectThere(db: D1Database, all: readonly Sent[]): Promise<void> {
  const answers = all.flatMap(({ response }): Result[] =>
    response?.status === 200 ? [JSON.parse(response.body)] : [],
  );
  const results = answers.flatMap((answer) => answer.results ?? [answer]).filter(({ error }) => error === undefined);
  const minorOf = (legs: Result["debits"] = []) => Math.round(legs.reduce((sum, { amount }) => sum + amount, 0) * 1e6);
  type Effect = readonly [id: string, reason: string, minor: number, times: 1];
  const expected = results.flatMap(({ eventId, reservationId, debits, holds }): Effect[] => {
    if (eventId !== undefined) return [[eventId, "event_committed", minorOf(debits), 1]];
    return holds === undefined ? [] : [[reservationId ?? "", "reservation_held", minorOf(holds), 1]];
  });
  const { results: rows } = await db
    .prepare(
      `SELECT named.value ->> 0 AS id, coalesce((
         SELECT -sum(delta_minor) FROM credit_ledger AS l
         LEFT JOIN usage_events AS u ON u.account_id = l.account_id AND u.seq = l.event_seq
         LEFT JOIN reservations AS r ON r.account_id = l.account_id AND r.reservation_number = l.reservation_number
         WHERE reason = named.value ->> 1
           AND named.value ->> 0 = iif(reason = 'reservation_held', r.id, u.event_id)
       ), 0) AS minor, (SELECT count(*) FROM usage_events WHERE event_id = named.value ->> 0)
         + (SELECT count(*) FROM reservations WHERE id = named.value ->> 0) AS times
       FROM json_each(?) AS named`,
    )
    .bind(JSON.stringify(expected))
    .all<{ id: string; minor: number; times: number }>();
  expect(rows.map(({ id, minor, times }) => [id, minor, times])).toEqual(
    expected.map(([id, , minor, times]) => [id, minor, times]),
  );
  const ids = answers.flatMap(({ balances }) => balances ?? []).map(({ balanceId }) => balanceId);
  const uuids = all.flatMap(({ request, response }) =>
    request.kind === "capture" && response?.status === 200
      ? (request.body as { batch: { uuid: string }[] }).batch.map(({ uuid }) => uuid)
      : [],
  );
  const adjusted = all.filter(({ request, response }) => request.kind === "adjust" && response?.status === 200);
  const counted = await db
    .prepare(
      `SELECT (SELECT count(*) FROM credit_balances WHERE id IN (SELECT value FROM json_each(?1))) AS balances,
         (SELECT count(*) FROM analytics_events WHERE uuid IN (SELECT value FROM json_each(?2))) AS captured,
         (SELECT count(*) FROM credit_adjustments WHERE id IN (SELECT value FROM json_each(?3))) AS adjusted`,
    )
    .bind(
      JSON.stringify(ids),
      JSON.stringify(uuids),
      JSON.stringify(adjusted.map(({ request }) => (request.body as { adjustmentId: string }).adjustmentId)),
    )
    .first();
  expect(counted).toEqual({ balances: new Set(ids).size, captured: uuids.length, adjusted: adjusted.length });
}

/** Expects that every balance is the sum of its entries and not below zero, and that no account's entries have a gap. */
async function expectSound(db: D1Database): Promise<void> {
  const { results } = await db
    .prepare(
      `SELECT b.id FROM credit_balances AS b WHERE remaining_minor < 0 OR remaining_minor <> (
         SELECT sum(delta_minor) FROM credit_ledger AS l WHERE l.account_id = b.account_id AND l.grant_seq = b.grant_seq)
       UNION ALL SELECT 'account ' || account_id FROM credit_ledger GROUP BY account_id HAVING count(*) <> max(seq)
       UNION ALL SELECT 'events of ' || account_id FROM usage_events GROUP BY account_id HAVING count(*) <> max(seq)`,
    )
    .all();
  expect(results).toEqual([]);
}

/** Expects correct daily sums once the cron has made them, and correct counters of the limits. */
async function expectSummed({ environmentId }: World): Promise<void> {
  const db = await server.db();
  const marks = () =>
    db
      .prepare("SELECT count(*) AS n FROM usage_to_sum WHERE environment_id = ?")
      .bind(environmentId)
      .first<number>("n");
  for (let run = 0; run < 30 && (await marks()) !== 0; run++) await server.cron();
  expect(await marks()).toBe(0);
  expect((await db.prepare(wrongDaySums(0)).all()).results).toEqual([]);
  expect((await db.prepare(wrongMeterSums(0)).all()).results).toEqual([]);
  expect((await db.prepare(wrongCounters(0)).all()).results).toEqual([]);
  const counted = await db
    .prepare("SELECT count(*) AS n FROM usage_counters WHERE environment_id = ? AND used_minor > 0")
    .bind(environmentId)
    .first<number>("n");
  expect(counted).toBeGreaterThan(0);
}

/** Expects that every user got the one period that has begun, exactly once, by a write or by the cron. */
async function expectPeriods({ environmentId }: World): Promise<void> {
  await sleep(1_000);
  await server.cron();
  const { results } = await (await server.db())
    .prepare(
      `SELECT r.id, r.last_n AS n, (
         SELECT count(*) FROM credit_balances AS b WHERE b.account_id = r.account_id AND b.external_ref = 'recurring:' || r.id || ':1'
       ) AS balances FROM recurring_grants AS r WHERE r.environment_id = ?`,
    )
    .bind(environmentId)
    .all<{ id: string; n: number; balances: number }>();
  expect(results).toHaveLength(5);
  for (const { id, ...period } of results) expect(period, id).toEqual({ n: 1, balances: 2 });
}

interface Count {
  readonly requests: number;
  readonly messages: number;
  /** The number of requests without a response, which were repeated, and how many of them were already stored. */
  readonly unanswered: number;
  readonly landed: number;
}

const isAcknowledged = ({ response }: Sent): boolean => response !== null && isDecided(response);

/** Compares the database with the acknowledged requests. Then repeats the others, and some of the acknowledged ones. */
async function settle(world: World): Promise<Count> {
  const { storm, environmentId } = world;
  const db = await server.db();
  const acknowledged = storm.sent.filter(isAcknowledged);
  expect(acknowledged.length).toBeGreaterThan(0);
  await expectThere(db, acknowledged);
  await expectMessages(db, environmentId);
  const others = storm.sent.filter((sent) => !acknowledged.includes(sent));
  for (const sent of others) sent.response = await sendAgain(sent);
  const repeated = storm.sent
    .filter(({ request, response }) => response?.status === 200 && request.kind !== "release")
    .slice(-60);
  for (const sent of repeated) expectSame(sent, { request: sent.request, response: await sendAgain(sent) });
  await expectThere(db, storm.sent);
  await expectSound(db);
  await expectPeriods(world);
  await expectSummed(world);
  const messages = await expectHeard(world);
  const landed = others.filter(({ response }) => response?.isReplay === true).length;
  return { requests: storm.sent.length, messages, unanswered: others.length, landed };
}

function tell(counts: readonly Count[], count: number, isImpatient: boolean): void {
  const sum = (field: keyof Count) => counts.reduce((total, one) => total + one[field], 0).toLocaleString("en");
  console.info(
    `soak: ${isImpatient ? "callers that leave" : "kills of the server"}: ` +
      `${counts.length === count ? "" : `${counts.length} of `}${count} storms, ${sum("requests")} requests, ` +
      `${sum("messages")} messages, ${sum("unanswered")} without an answer and sent again, ${sum("landed")} of them had landed, PROOF_SEED=${RANDOM_SEED}`,
  );
}

/** Runs storms one after another, and interrupts each with `cut`. */
async function play(count: number, isImpatient: boolean, cut: () => Promise<void>): Promise<void> {
  const counts: Count[] = [];
  for (let cycle = 0; cycle < count; cycle++) {
    // Each storm needs different ids, which come from its seed.
    const world = await enter(cycle, RANDOM_SEED + cycle + (isImpatient ? 1_000 : 0));
    let isOver = false;
    const callers = Array.from({ length: CALLERS }, () => world.storm.run(server.url(), () => isOver, isImpatient));
    const stormMs = STORM_MS.min + (((RANDOM_SEED + cycle) * 7_919) % (STORM_MS.max - STORM_MS.min));
    await new Promise((resolve) => setTimeout(resolve, stormMs));
    // On a busy machine no request may have a response yet, so the storm continues until one has.
    for (let waits = 0; waits < 600 && !world.storm.sent.some(isAcknowledged); waits++) {
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    isOver = true;
    // The cut also interrupts the cron.
    const cron = server.cron().catch(() => {});
    await cut();
    await Promise.all([...callers, cron]);
    counts.push(await settle(world));
    if (counts.length === count || (SOAK_OPERATIONS > 0 && counts.length % 10 === 0)) tell(counts, count, isImpatient);
  }
}

describe(`many random requests to the built Worker, from PROOF_SEED=${RANDOM_SEED}`, () => {
  const timeout = 120_000 + KILLS * 60_000;

  it(
    `lose and duplicate nothing when the whole server is killed, and take effect once when repeated, kills: ${KILLS}`,
    { timeout },
    () =>
      play(KILLS, false, async () => {
        await server.kill();
        await server.start();
      }),
  );

  it(
    "lose and duplicate nothing when callers leave at any moment, and take effect once when repeated",
    { timeout },
    () => play(Math.ceil(KILLS / 2), true, async () => {}),
  );
});

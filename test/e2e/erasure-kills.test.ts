import { setTimeout as pause } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createRandom, type Random } from "../support/random.ts";
import { findInCopies } from "./support/copies.ts";
import { type KillableServer, startKillableServer } from "./support/killable-server.ts";
import { type Receiver, startReceiver } from "./support/receiver.ts";
import { ADMIN_TOKEN } from "./support/server.ts";
import { RANDOM_SEED, SOAK_OPERATIONS } from "./support/soak.ts";

// The whole server is killed repeatedly while it erases a person, and other callers write for this person meanwhile. The erasure
// completes once, and nothing of the person remains in the file of the database (E1, E7).

const ROUNDS = SOAK_OPERATIONS === 0 ? 1 : Math.min(20, Math.ceil(SOAK_OPERATIONS / 2_000));
const KILLS_OF_ONE = SOAK_OPERATIONS === 0 ? 2 : 3;
const WRITERS = 6;
/** A part of every id and every text of every person in this test. */
const MARK = "Zq7-marked";
const DEVICE = "0194685f-1b2c-7d3e-8f40-";

let server: KillableServer;
let receiver: Receiver;
beforeAll(async () => {
  receiver = await startReceiver((response) => void response.writeHead(204).end());
  server = await startKillableServer();
}, 120_000);
afterAll(async () => {
  await server?.close();
  await receiver?.close();
});

async function post(path: string, key: string, body: object): Promise<{ status: number; text: string }> {
  const answer = await fetch(`${server.url()}${path}`, {
    method: "POST",
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
    body: JSON.stringify(body),
    signal: AbortSignal.timeout(60_000),
  });
  return { status: answer.status, text: await answer.text() };
}

async function done(path: string, key: string, body: object) {
  const { status, text } = await post(path, key, body);
  expect(status, text).toBe(200);
  return JSON.parse(text);
}

interface Person {
  readonly key: string;
  readonly packId: string;
  readonly environmentId: number;
  /** The erased id, a device that it claims, and an alias. */
  readonly ids: readonly [string, string, string];
}

/** The allowed responses to the writers, besides `person_erased`. */
const ALLOWED = new Set([200, 402, 503]);
const EVENTS = 150_000;
const USAGE = 1_500;

/** A person with several pages of events, usage, credits, holds, refunds and consents, in an environment with an endpoint. */
async function makePerson(round: number): Promise<Person> {
  const { appId } = await done("/api/v1/admin/apps", ADMIN_TOKEN, { name: `Round ${round}` });
  const { key } = await done(`/api/v1/admin/apps/${appId}/keys`, ADMIN_TOKEN, { kind: "secret", mode: "live" });
  const items = [{ unit: "cents", amount: 1_000 }];
  const { packId } = await done(`/api/v1/admin/apps/${appId}/packs`, ADMIN_TOKEN, { packName: "Wallet", items });
  await done(`/api/v1/admin/apps/${appId}/webhooks`, ADMIN_TOKEN, { mode: "live", url: receiver.url });
  const ids = [`${MARK}-ana-${round}`, `${DEVICE}${`${round}`.padStart(12, "0")}`, `${MARK}-crm-${round}`] as const;
  const [ana, device, crm] = ids;
  const write = (path: string, body: object) => done(`/api/v1/${path}`, key, body);
  for (const order of [1, 2, 3]) {
    const externalRef = `${MARK} order ${order}`;
    await write("credits/grant", { userId: ana, packId, externalRef, notes: `${MARK} note` });
  }
  await write("credits/refund", { ...{ userId: ana, externalRef: `${MARK} order 3`, refundRef: `${MARK} refund` } });
  for (let first = 0; first < USAGE; first += 100) {
    const list = Array.from({ length: 100 }, (_, n) => ({
      ...{ eventId: `${MARK}-e${first + n}`, userId: ana, event: "call", quantities: { cents: 0.5 } },
      properties: { told: `${MARK} property ${n}`.repeat(n % 50 === 0 ? 200 : 1) },
    }));
    await write("usage/events", list);
  }
  // The person is a member of a team, too.
  const ofTeam = { userId: `team-${round}`, memberId: ana, event: "call" };
  for (let first = 0; first < USAGE; first += 100) {
    const list = Array.from({ length: 100 }, (_, n) => ({
      ...{ ...ofTeam, eventId: `${MARK}-t${first + n}`, quantities: { cents: 0.5 }, onShortage: "partial" },
      properties: { told: `${MARK} property ${n}` },
    }));
    await write("usage/events", list);
  }
  const reservationId = `res_${MARK}-${round}`;
  await write("usage/reservations", { ...ofTeam, reservationId, quantities: { cents: 0 } });
  await write(`usage/reservations/${reservationId}/commit`, { eventId: `${MARK}-tc`, quantities: { cents: 0 } });
  for (const onExpiry of ["return", "charge"]) {
    await write("usage/reservations", { userId: ana, event: "call", quantities: { cents: 9 }, onExpiry });
  }
  await write("consent", { distinctId: ana, purpose: `${MARK} ads`, decision: "granted", source: `${MARK} page` });
  const batch = [
    { event: `${MARK} event`, distinct_id: ana, properties: { $set: { email: `${MARK}@example.com` } } },
    { event: "$identify", distinct_id: ana, properties: { $anon_distinct_id: device } },
    { event: "$create_alias", distinct_id: ana, properties: { alias: crm } },
  ];
  await done("/batch/", key, { api_key: key, batch });
  const { downloadUrl } = await write("export-person", { distinctId: ana });
  expect((await fetch(downloadUrl)).status).toBe(200);
  const db = await server.db();
  const row = await db
    .prepare("SELECT id FROM environments WHERE app_id = ? AND mode = 'live'")
    .bind(appId)
    .first<{ id: number }>();
  const environmentId = row?.id ?? 0;
  // The device has many old events.
  await db.batch([
    db
      .prepare(
        `INSERT INTO analytics_events (environment_id, distinct_id, seq, uuid, event, timestamp_ms, received_at_ms, properties)
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ${EVENTS})
         SELECT CAST(?1 AS INTEGER), ?2, i, ?2 || '-' || i, '${MARK} seen', i, i, '{"page":"${MARK} page"}' FROM n`,
      )
      .bind(environmentId, device),
    db
      .prepare(
        "UPDATE distinct_ids SET event_count = ?1, event_bytes = ?1 * 19 WHERE environment_id = ?2 AND distinct_id = ?3",
      )
      .bind(EVENTS, environmentId, device),
  ]);
  return { key, packId, environmentId, ids };
}

/** One request that writes for the person, reads data, or erases too. */
function someRequest(random: Random, { key, packId, ids }: Person): readonly [path: string, body: object] {
  const [ana, device] = ids;
  const mark = `${MARK}-${random.id("")}`;
  const usage = { userId: ana, event: "call", quantities: { cents: 0.25 } };
  const event = (distinct_id: string) => ({ event: mark, distinct_id, properties: { $set: { told: mark } } });
  return random.pick<readonly [string, object]>([
    ["/api/v1/credits/grant", { userId: ana, packId, externalRef: mark, notes: mark }],
    ["/api/v1/usage/events", { ...usage, eventId: mark, properties: { told: mark } }],
    ["/api/v1/usage/events", [1, 2, 3].map((n) => ({ ...usage, eventId: `${mark}-${n}` }))],
    ["/api/v1/usage/reservations", { ...usage, reservationId: `res_${mark.replaceAll("-", "")}`, expiresInSeconds: 1 }],
    [
      "/api/v1/credits/refund",
      { userId: ana, externalRef: `${MARK} order 1`, refundRef: mark, share: { part: 1, of: 9 } },
    ],
    ["/api/v1/consent", { distinctId: random.pick(ids), purpose: mark, decision: "denied" }],
    ["/batch/", { api_key: key, batch: [event(ana), event(device)] }],
    ["/api/v1/export-person", { distinctId: ana }],
    ["/api/v1/erase-person", { distinctId: ana }],
  ]);
}

const running = async () =>
  (await (await server.db()).prepare("SELECT id FROM erasures WHERE completed_at_ms IS NULL").all<{ id: string }>())
    .results;

const hasBegun = async ({ environmentId }: Person) =>
  (await (await server.db()).prepare("SELECT 1 FROM erasures WHERE environment_id = ?").bind(environmentId).first()) !==
  null;

/** Returns the granted and the used amount by unit. An erasure changes neither. */
async function books({ environmentId }: Person): Promise<unknown> {
  const { results } = await (await server.db())
    .prepare(
      `SELECT b.unit, l.reason, sum(l.delta_minor) AS minor, count(*) AS entries, (
         SELECT count(*) || ' ' || sum(u.cents_minor) FROM usage_events AS u WHERE u.environment_id = ?1
       ) AS usage
       FROM credit_ledger AS l CROSS JOIN accounts AS a ON a.id = l.account_id
       CROSS JOIN credit_balances AS b ON b.account_id = l.account_id AND b.grant_seq = l.grant_seq
       WHERE a.environment_id = ?1 AND l.reason IN ('grant', 'event_committed') GROUP BY b.unit, l.reason ORDER BY l.reason`,
    )
    .bind(environmentId)
    .all();
  expect(results).toHaveLength(2);
  return results;
}

/** Expects that every balance is the sum of its entries, and that nothing remains of it. */
async function expectClosed({ environmentId }: Person): Promise<void> {
  const { results } = await (await server.db())
    .prepare(
      `SELECT b.id FROM credit_balances AS b CROSS JOIN accounts AS a ON a.id = b.account_id
       WHERE a.environment_id = ?1 AND (b.revoked_at_ms IS NULL OR remaining_minor <> 0 OR (
         SELECT sum(delta_minor) FROM credit_ledger AS l WHERE l.account_id = b.account_id AND l.grant_seq = b.grant_seq) <> 0)
       UNION ALL SELECT id FROM reservations WHERE environment_id = ?1 AND state = 'open'
       UNION ALL SELECT id FROM erasures WHERE completed_at_ms IS NULL
       UNION ALL SELECT distinct_id FROM erasure_ids UNION ALL SELECT new_name FROM erasure_names`,
    )
    .bind(environmentId)
    .all();
  expect(results).toEqual([]);
}

interface Count {
  kills: number;
  unfinished: number;
  answers: number;
  unanswered: number;
}

/** Erases one person, and kills the server meanwhile. */
async function eraseDuringKills(round: number, by: "call" | "cron", count: Count): Promise<void> {
  const random = createRandom(RANDOM_SEED + round);
  const person = await makePerson(round);
  const [ana] = person.ids;
  const before = await running();
  expect(before).toEqual([]);
  const disallowed: string[] = [];
  let kept: unknown = null;
  for (let kills = 0; kills < KILLS_OF_ONE; kills++) {
    let isOver = false;
    const writers = Array.from({ length: WRITERS }, async () => {
      while (!isOver) {
        const [path, body] = someRequest(random, person);
        if (by === "cron" && kills > 0 && path.endsWith("erase-person")) continue;
        const answer = await post(path, person.key, body).catch(() => null);
        if (answer === null) count.unanswered++;
        else {
          count.answers++;
          // A reference can be refunded completely only once. A later refund is rejected.
          const isAllowed = answer.status === 409 ? answer.text.includes("person_erased") : ALLOWED.has(answer.status);
          if (!isAllowed && !path.endsWith("refund")) disallowed.push(`${path} ${answer.status} ${answer.text}`);
        }
      }
    });
    const cron = async () => {
      while (!isOver) await server.cron().catch(() => pause(20));
    };
    const others = by === "cron" ? [cron()] : [];
    await pause(200);
    // The first call starts the erasure. Later calls or the cron continue it.
    const begun =
      by === "call" || kills === 0
        ? [post("/api/v1/erase-person", person.key, { distinctId: ana }).catch(() => null)]
        : [];
    await pause(random.integer(30, 900));
    isOver = true;
    await server.kill();
    count.kills++;
    await Promise.all([...writers, ...others, ...begun]);
    await server.start();
    if ((await running()).length > 0) count.unfinished++;
    // After the start of the erasure, grants and usage do not change.
    if (await hasBegun(person)) kept ??= await books(person);
    if (kept !== null) expect(await books(person)).toEqual(kept);
  }
  if (by === "cron") for (let runs = 0; runs < 60 && (await running()).length > 0; runs++) await server.cron();
  const receipt = await done("/api/v1/erase-person", person.key, { distinctId: ana });
  for (let calls = 0; calls < 20 && (await running()).length > 0; calls++) {
    await done("/api/v1/erase-person", person.key, { distinctId: ana });
  }
  expect(disallowed).toEqual([]);
  const db = await server.db();
  const receipts = await db
    .prepare("SELECT id FROM erasures WHERE environment_id = ?")
    .bind(person.environmentId)
    .all<{ id: string }>();
  expect(receipts.results).toEqual([{ id: receipt.erasureId }]);
  const messages = await db
    .prepare(
      // A later export sends a message that names only the hash.
      "SELECT type, subject, data FROM webhook_messages WHERE environment_id = ? AND type <> 'person.exported'",
    )
    .bind(person.environmentId)
    .all();
  const data = JSON.stringify({ erasureId: receipt.erasureId });
  expect(messages.results).toEqual([{ type: "person.erased", subject: null, data }]);
  if (kept !== null) expect(await books(person)).toEqual(kept);
  await expectClosed(person);
}

describe(`erasures while the server is killed, from PROOF_SEED=${RANDOM_SEED}`, () => {
  it("complete once, by call and by cron, and leave nothing of a person in the database's file", {
    timeout: 300_000 * ROUNDS,
  }, async () => {
    const count: Count = { kills: 0, unfinished: 0, answers: 0, unanswered: 0 };
    for (let round = 0; round < 2 * ROUNDS; round++) {
      await eraseDuringKills(round, round % 2 === 0 ? "call" : "cron", count);
    }
    await server.kill();
    expect(findInCopies(server.state, [MARK, MARK.replaceAll("-", ""), DEVICE])).toEqual([]);
    const summary = `${count.kills} kills, ${count.unfinished} of them during an erasure, ${count.answers} answers, ${count.unanswered} lost`;
    console.info(`soak: kills during erasures: ${summary}, PROOF_SEED=${RANDOM_SEED}`);
    expect(count.unfinished).toBeGreaterThan(0);
  });
});

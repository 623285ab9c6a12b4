import { env } from "cloudflare:workers";
import { afterAll, beforeEach, expect, it, vi } from "vitest";
import { systemCtx } from "../../src/auth/system-ctx.ts";
import { findExpiries } from "../../src/books/alerts/find-expiries.ts";
import { expireReservations } from "../../src/books/usage/expire.ts";
import { DAY_MS } from "../../src/lib/time.ts";
import { type Alert, createAlertsModel, type Entry, type Issued } from "../support/alerts-model.ts";
import { runPart } from "../support/cron.ts";
import { FAULTS, faultyD1 } from "../support/faulty-d1.ts";
import { expectLedgerInvariants } from "../support/invariants.ts";
import { createRandom } from "../support/random.ts";
import { RANDOM_SEED, soakCount, soakPart, timeoutOf } from "../support/soak.ts";
import { makeEndpoint } from "../support/webhooks.ts";
import { type Answer, atRandom, bound, Clock, makeApp, makeClient, makePack } from "../support/world.ts";

const OPERATIONS_A_HISTORY = 50;
const HISTORIES = soakCount(2, 2);
const OPERATIONS = HISTORIES * OPERATIONS_A_HISTORY;

afterAll(expectLedgerInvariants);
beforeEach(() => {
  vi.spyOn(scheduler, "wait").mockResolvedValue();
});

const PACKS = {
  Plain: [{ amountMinor: 10_000, unit: "tokens" }],
  Chat: [{ amountMinor: 7_001, unit: "tokens", matches: [{ event: "chat.*" }] }],
  Both: [
    { amountMinor: 3_333, unit: "tokens", matches: [{ event: "image" }, { model: "m" }] },
    { amountMinor: 2_000_000, unit: "cents" },
  ],
} as const;

const ALERTS = [
  { unit: "tokens", packs: ["Plain", "Chat", "Both"], below: { amount: 8 } },
  { unit: "tokens", event: "chat.a*", packs: ["Plain", "Chat", "Both"], below: { percent: 33.333 } },
  { unit: "tokens", event: "image", packs: ["Plain", "Both"], below: { percent: 60 } },
  { unit: "tokens", event: "chat.*", packs: ["Plain", "Chat", "Both"], below: { amount: 15 } },
  { unit: "cents", packs: ["Both"], below: { percent: 100 } },
] as const;
const DAYS = [2, 1];
const USERS = ["ada", "böb"];

type Row = Entry & Issued;

/** The entries after the last known `seqs`, in order, each with its balance. */
async function entriesSince(environmentId: number, seqs: Map<string, number>): Promise<Row[]> {
  const { results } = await env.DB.prepare(
    `SELECT a.user_id AS user, l.seq, b.id AS balanceId, l.delta_minor AS delta, l.reason, l.is_revoked AS isRevoked,
       coalesce(r.id, u.reservation_id) AS reservationId, b.id, b.unit, b.pack_name AS pack, b.initial_minor AS initial,
       b.granted_at_ms AS grantedAt, b.expires_at_ms AS expiresAt
     FROM accounts AS a JOIN credit_ledger AS l ON l.account_id = a.id
     JOIN credit_balances AS b ON b.account_id = l.account_id AND b.grant_seq = l.grant_seq
     LEFT JOIN usage_events AS u ON u.account_id = l.account_id AND u.seq = l.event_seq
     LEFT JOIN reservations AS r ON r.account_id = l.account_id AND r.reservation_number = l.reservation_number
     WHERE a.environment_id = ? AND l.seq > coalesce(?2 ->> a.user_id, 0) ORDER BY a.user_id, l.seq`,
  )
    .bind(environmentId, JSON.stringify(Object.fromEntries(seqs)))
    .all<Row>();
  return results.map((row) => ({ ...row, isRevoked: Boolean(row.isRevoked) }));
}

const ALERTS_MODEL = 1_000_000_000;

async function play(seed: number): Promise<number> {
  // Other models have the same seeds in one process, and ids of the same choices would collide in its database.
  const random = createRandom(seed + ALERTS_MODEL);
  // A run of the cron reads a limited number of pages, so no other history may have expiries left.
  await env.DB.prepare("DELETE FROM balance_expiries").run();
  const clock = new Clock();
  const app = await makeApp();
  const { live } = app.environments;
  const packIds: string[] = [];
  for (const [name, items] of Object.entries(PACKS)) packIds.push(await makePack(app.appId, name, items));
  await makeEndpoint(live, ["credits.low", "credits.depleted", "balance.*"], clock.ms);
  const faulty = faultyD1(env.DB);
  const newId = random.id;
  const call = makeClient(clock, { DB: faulty.d1 }, newId, atRandom(3, random));
  const admin = (method: string, path: string, body: object) =>
    call(method, `/api/v1/admin${path}`, { key: env.ADMIN_TOKEN, body });
  const alerts: Alert[] = [];
  for (const { packs, ...alert } of ALERTS) {
    const { body } = await admin("POST", `/apps/${app.appId}/alerts`, { mode: "live", name: "Low", ...alert });
    const { amount } = alert.below as { amount?: number };
    alerts.push({
      id: body.alertId,
      unit: alert.unit,
      packs,
      below: amount === undefined ? alert.below : { amount: amount * 1_000 },
    });
  }
  await admin("PUT", `/apps/${app.appId}/expiry-notices`, { mode: "live", days: DAYS });
  const model = createAlertsModel(alerts, DAYS, clock.ms);
  const seqs = new Map<string, number>();
  const balances = new Map<string, Row>();
  const open: string[] = [];
  const seen = new Set<string>();
  let messages = 0;

  const post = (path: string, body: object) => call("POST", `/api/v1${path}`, { key: app.keys.sk_live, body });
  const someUse = () => ({
    userId: random.pick(USERS),
    event: random.pick(["chat.a", "image", "other"]),
    ...(random.chance(0.3) ? { model: "m" } : {}),
    quantities: { count: 0, [random.pick(["tokens", "tokens", "cents"])]: random.integer(1, 6_000) / 1_000 },
  });
  const operation = (place: string): (() => Promise<Answer>) | null => {
    const kind = random.integer(0, 11);
    const balanceIds = [...balances.keys()];
    if (kind <= 2) {
      const expiresAt = random.chance(0.4) ? null : new Date(clock.ms + random.integer(1, 4 * DAY_MS)).toISOString();
      const body = { userId: random.pick(USERS), packId: random.pick(packIds), expiresAt, externalRef: `g ${place}` };
      return () => post("/credits/grant", body);
    }
    if (kind <= 6) {
      const body = { eventId: `e ${place}`, ...someUse(), onShortage: random.pick(["reject", "partial"]) };
      return () => post("/usage/events", body);
    }
    if (kind === 7) {
      const reservationId = `res_${place.replaceAll(" ", "-")}`;
      const onExpiry = random.pick(["return", "charge"]);
      const body = { reservationId, ...someUse(), onExpiry, expiresInSeconds: random.integer(1, 86_400) };
      open.push(reservationId);
      return () => post("/usage/reservations", body);
    }
    if (kind === 8 && open.length > 0) {
      const path = `/usage/reservations/${random.pick(open)}`;
      if (random.chance(0.3)) return () => post(`${path}/release`, {});
      const body = { eventId: `c ${place}`, quantities: { count: 0, tokens: random.integer(1, 5) } };
      return () => post(`${path}/commit`, body);
    }
    if (kind === 9 && balanceIds.length > 0) {
      const body = { delta: random.integer(-4_000, 4_000) / 1_000, note: "n", adjustmentId: `a ${place}` };
      return () => admin("POST", `/balances/${random.pick(balanceIds)}/adjust`, body);
    }
    if (kind === 10 && balanceIds.length > 0) {
      const balanceId = random.pick(balanceIds);
      return () => post("/credits/revoke", { balanceId });
    }
    if (kind === 11 && balanceIds.length > 0) {
      const place = random.integer(1, 50);
      const body = {
        userId: random.pick(USERS),
        externalRef: `g ${seed} ${place}`,
        refundRef: `r ${place}`,
        share: { part: random.integer(1, 2), of: 2 },
      };
      return () => post("/credits/refund", body);
    }
    return null;
  };
  /**
   * The model's messages for the new entries. A write that raises a balance looks at the charges of due reservations before it, because
   * it could hide that they crossed a threshold. Any other looks once, at all that its batch changed.
   */
  const expectWritten = async (): Promise<string[]> => {
    const rows = await entriesSince(live.id, seqs);
    // A charge's event has its reservation's id.
    const charged = await env.DB.prepare(
      `SELECT r.id FROM reservations AS r CROSS JOIN usage_events AS u ON u.account_id = r.account_id AND u.seq = r.settled_event_seq
       WHERE r.environment_id = ? AND u.event_id = r.id`,
    )
      .bind(live.id)
      .raw<[string | null]>()
      .then((ids) => ids.flat());
    const expected: string[] = [];
    for (const user of USERS) {
      const ofUser = rows.filter((row) => row.user === user);
      let end = ofUser.findLastIndex(({ reservationId }) => charged.includes(reservationId));
      // Returns in the batch of charges may come after them.
      const isReturn = (row: Row | undefined) =>
        row?.reason === "reservation_expired" || (row?.reason === "admin_adjust" && row.reservationId !== null);
      while (end >= 0 && isReturn(ofUser[end + 1])) end++;
      const own = ofUser.slice(end + 1);
      const raises = own.some(({ delta, reason }) => delta > 0 && (reason === "grant" || reason === "admin_adjust"));
      for (const part of raises ? [ofUser.slice(0, end + 1), own] : [ofUser]) {
        const issued = part.filter(({ reason }) => reason === "grant");
        for (const row of issued) balances.set(row.id, row);
        expected.push(...model.batch(user, part, issued, clock.ms));
      }
      const last = ofUser.at(-1);
      if (last !== undefined) seqs.set(user, last.seq);
    }
    return expected;
  };
  for (let count = 1; count <= OPERATIONS_A_HISTORY; count++) {
    const where = `operation ${count} (PROOF_SEED=${seed})`;
    const next = Math.min(...[...balances.values()].map(({ expiresAt }) => expiresAt).filter((ms) => ms > clock.ms));
    if (random.chance(0.1) && next < clock.ms + DAY_MS) clock.ms = next;
    else if (random.chance(0.3)) clock.advance(random.integer(1, DAY_MS));
    const act = operation(`${seed} ${count}`);
    const expected: string[] = [];
    if (act === null) {
      const root = systemCtx(bound({ DB: faulty.d1 }), { isolate: {}, now: clock.now, newId });
      const run = async () => [await runPart(expireReservations, root), await runPart(findExpiries, root)];
      if (random.chance(0.2)) await Promise.all([run(), run()]);
      else await run();
      expected.push(...(await expectWritten()), ...model.cron(clock.ms));
    } else {
      if (random.chance(0.15)) {
        faulty.plan({ fault: random.pick(FAULTS), at: random.integer(1, 3) });
        await act();
        faulty.plan(null);
      }
      const { status, body } = await act();
      expect([200, 400, 402, 404, 409], `${where}: ${JSON.stringify(body)}`).toContain(status);
      expected.push(...(await expectWritten()));
    }
    const { results } = await env.DB.prepare("SELECT id, type, data FROM webhook_messages WHERE environment_id = ?")
      .bind(live.id)
      .all<{ id: string; type: string; data: string }>();
    const fresh = results.filter(({ id }) => !seen.has(id));
    for (const { id } of fresh) seen.add(id);
    messages += fresh.length;
    expect(fresh.map(({ type, data }) => written(type, JSON.parse(data))).sort(), where).toEqual(expected.sort());
  }
  return messages;
}

const minor = (unit: string, amount: number) => Math.round(amount * (unit === "cents" ? 1_000_000 : 1_000));
// biome-ignore lint/suspicious/noExplicitAny: the data of any message
function written(type: string, data: any): string {
  const { userId, balanceId, unit, remaining, seq } = data;
  const left = minor(unit, remaining);
  if (type === "credits.depleted") return `depleted ${userId} ${seq}`;
  if (type === "credits.low") return `low ${userId} ${data.alertId} ${left} of ${minor(unit, data.threshold)} ${seq}`;
  return `${type.slice("balance.".length)} ${userId} ${balanceId} ${left}${type === "balance.expiring" ? ` in ${data.days}` : ""}`;
}

it(`sends exactly the model's messages in random histories with faults, three isolates and overlapping crons, from PROOF_SEED=${RANDOM_SEED} on`, {
  timeout: timeoutOf(OPERATIONS, 2_000),
}, async () => {
  console.info(`alerts-model.test.ts: PROOF_SEED=${RANDOM_SEED}`);
  let messages = 0;
  const tell = soakPart("model of alerts and expiries", OPERATIONS, "operations", RANDOM_SEED);
  for (let history = 0; history < HISTORIES; history++) {
    messages += await play(RANDOM_SEED + history);
    tell(OPERATIONS_A_HISTORY);
  }
  // A few histories may have few messages.
  expect(messages).toBeGreaterThan(0);
});

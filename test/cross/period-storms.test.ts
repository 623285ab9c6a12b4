import { env } from "cloudflare:workers";
import { afterAll, describe, expect, it, vi } from "vitest";
import { findExpiries } from "../../src/books/alerts/find-expiries.ts";
import { grantDuePeriods } from "../../src/books/recurring/grant-due.ts";
import { randomId } from "../../src/lib/ids.ts";
import { DAY_MS } from "../../src/lib/time.ts";
import { countingD1 } from "../support/counting-d1.ts";
import { storedBalances } from "../support/credits.ts";
import { runPart } from "../support/cron.ts";
import { END_USER_SETTING } from "../support/end-user-setting.ts";
import { hookedD1 } from "../support/hooked-d1.ts";
import { expectLedgerInvariants } from "../support/invariants.ts";
import { userToken } from "../support/keyed-routes.ts";
import { times } from "../support/minor.ts";
import { soakCount, timeoutOf } from "../support/soak.ts";
import { makeEndpoint, storedMessages } from "../support/webhooks.ts";
import {
  type Answer,
  type Bindings,
  Clock,
  inTurn,
  makeAdminCtx,
  makeApp,
  makeClient,
  makePack,
  type PickIsolate,
  type TestItem,
} from "../support/world.ts";

afterAll(expectLedgerInvariants);
vi.setConfig({ testTimeout: timeoutOf(200, 500) });

const ROUNDS = soakCount(1, 0.5);
const MONTH_MS = 31 * DAY_MS;
const ITEMS: readonly TestItem[] = [
  { amountMinor: 100_000, unit: "tokens" },
  { amountMinor: 5_000, unit: "count", matches: [{ event: "image.*" }] },
];

interface Given {
  readonly items?: readonly TestItem[];
  readonly bindings?: Bindings;
  readonly pick?: PickIsolate;
  readonly fields?: object;
  /** The messages of an endpoint that exists from the beginning. */
  readonly types?: readonly string[];
}

/** A user "u" with a monthly recurring grant, `rec_…`, whose first period was granted. */
async function periodsWorld({ items = ITEMS, bindings = {}, pick = () => 0, fields = {}, types }: Given = {}) {
  const clock = new Clock();
  const app = await makeApp(END_USER_SETTING);
  const key = app.keys.sk_live;
  const call = makeClient(clock, bindings, randomId, pick);
  const packId = await makePack(app.appId, "Free", items);
  const ask = (method: string, path: string, body?: object): Promise<Answer> =>
    call(method, `/api/v1${path}`, { key, ...(body && { body }) });
  const callOk = async (method: string, path: string, body?: object) => {
    const answer = await ask(method, path, body);
    expect(answer.status, `${path} ${JSON.stringify(answer.body)}`).toBe(200);
    return answer.body;
  };
  const admin = (method: string, path: string, body: object = {}) =>
    call(method, `/api/v1/admin/apps/${app.appId}${path}`, { key: env.ADMIN_TOKEN, body });
  if (types !== undefined) await makeEndpoint(app.environments.live, types, clock.ms);
  const recurringId = `rec_${app.environments.live.id}`;
  await callOk("POST", "/credits/recurring", { recurringId, userId: "u", packId, every: "month", ...fields });
  const event = (tokens: number, more: object = {}) =>
    ask("POST", "/usage/events", {
      ...{ eventId: randomId("e"), userId: "u", event: "chat", quantities: { count: 0, tokens }, ...more },
    });
  const hold = (tokens: number) =>
    ask("POST", "/usage/reservations", { userId: "u", event: "chat", quantities: { count: 0, tokens } });
  const cron = () => runPart(grantDuePeriods, makeAdminCtx(clock));
  /** The number of balances of each period. */
  const periods = async (): Promise<Record<string, number>> => {
    const counts: Record<string, number> = {};
    for (const { external_ref: ref } of await storedBalances(app, "u")) {
      const n = ref?.split(":").at(-1) ?? "";
      counts[n] = (counts[n] ?? 0) + 1;
    }
    return counts;
  };
  const list = async () => (await callOk("GET", "/credits?userId=u")).credits;
  const isSound = async () => (await callOk("GET", "/credits/verify?userId=u")).isSound;
  return {
    clock,
    app,
    key,
    call,
    packId,
    ask,
    done: callOk,
    admin,
    recurringId,
    event,
    hold,
    cron,
    periods,
    list,
    isSound,
  };
}

it("a due period of a recurring grant is granted once when events, holds, a repeated creation and runs of the cron race in two isolates that know the user", async () => {
  for (let round = 0; round < ROUNDS; round++) {
    const world = await periodsWorld({ pick: inTurn(2) });
    for (const _ of times(4, () => 0)) expect((await world.event(1)).status).toBe(200);
    for (let month = 2; month <= 3; month++) {
      world.clock.advance(MONTH_MS);
      const answers = await Promise.all([
        ...times(10, () => world.event(3)),
        ...times(10, () => world.hold(4)),
        ...times(10, async () => expect(await world.cron()).toEqual([])),
        world.done("POST", "/credits/recurring", {
          ...{ recurringId: world.recurringId, userId: "u", packId: world.packId, every: "month" },
        }),
      ]);
      const used = answers.flatMap((answer) => (answer && "status" in answer ? [answer.status] : []));
      expect(used.filter((status) => status === 200)).toHaveLength(20);
      expect((await world.list()).map(({ remaining }: { remaining: number }) => remaining)).toEqual([5, 30]);
    }
    expect(await world.periods()).toEqual({ 1: 2, 2: 2, 3: 2 });
    expect(await world.isSound()).toBe(true);
  }
});

it("a due period of a recurring grant is granted once when cancellations race with its beginning; no later period follows, and after `now` nothing can be spent", async () => {
  for (const at of ["period_end", "now"]) {
    const world = await periodsWorld({ pick: inTurn(2) });
    expect((await world.event(1)).status).toBe(200);
    world.clock.advance(MONTH_MS);
    await Promise.all([
      ...times(5, () => world.event(3)),
      ...times(5, () => world.done("POST", `/credits/recurring/${world.recurringId}/cancel`, { at })),
      ...times(5, () => world.cron()),
    ]);
    expect(await world.periods()).toEqual({ 1: 2, 2: 2 });
    expect(await world.list()).toHaveLength(at === "now" ? 0 : 2);
    world.clock.advance(MONTH_MS);
    await world.cron();
    expect(await world.periods()).toEqual({ 1: 2, 2: 2 });
    expect(await world.isSound()).toBe(true);
  }
});

it("a due period of a recurring grant is granted once when ten concurrent calls resume its suspended grant", async () => {
  const world = await periodsWorld({ pick: inTurn(2) });
  await world.admin("POST", `/packs/${world.packId}/archive`);
  world.clock.advance(MONTH_MS);
  expect((await world.event(1)).status).toBe(402);
  await world.admin("POST", `/packs/${world.packId}/restore`);
  const path = `/credits/recurring/${world.recurringId}/resume`;
  const answers = await Promise.all(times(10, () => world.ask("POST", path, {})));
  expect(answers.filter(({ status }) => status === 200).length).toBeGreaterThanOrEqual(1);
  expect(await world.periods()).toEqual({ 1: 2, 2: 2 });
  expect(await world.isSound()).toBe(true);
});

type World = Awaited<ReturnType<typeof periodsWorld>>;
/** Actions of another caller between the trips of a write. */
const OTHERS: Readonly<Record<string, (world: World) => Promise<unknown>>> = {
  "the cron": (world) => world.cron(),
  "another isolate's event": (world) => world.event(7),
  "a cancellation at the period's end": (world) =>
    world.ask("POST", `/credits/recurring/${world.recurringId}/cancel`, {}),
  "a cancellation now": (world) => world.ask("POST", `/credits/recurring/${world.recurringId}/cancel`, { at: "now" }),
  "the pack's archiving": (world) => world.admin("POST", `/packs/${world.packId}/archive`),
  "the pack's change": (world) =>
    world.admin("PATCH", `/packs/${world.packId}`, { items: [{ amount: 77, unit: "tokens" }] }),
};
const WRITES: Readonly<Record<string, (ask: World["ask"], world: World) => Promise<Answer>>> = {
  event: (ask) =>
    ask("POST", "/usage/events", { eventId: "x", userId: "u", event: "chat", quantities: { count: 0, tokens: 9 } }),
  hold: (ask) =>
    ask("POST", "/usage/reservations", { userId: "u", event: "chat", quantities: { count: 0, tokens: 9 } }),
  grant: (ask, { packId }) => ask("POST", "/credits/grant", { userId: "u", packId, externalRef: "own" }),
  cancel: (ask, { recurringId }) => ask("POST", `/credits/recurring/${recurringId}/cancel`, { at: "now" }),
};

describe.each(Object.keys(WRITES))("a due period found by a write (%s)", (write) => {
  it.each(Object.keys(OTHERS))("is granted at most once when %s comes before any of its trips", async (other) => {
    for (const place of [1, 2, 3]) {
      const world = await periodsWorld();
      world.clock.advance(MONTH_MS);
      const { d1 } = { d1: hookedD1(env.DB, async (trip) => void (trip === place && (await OTHERS[other]?.(world)))) };
      const call = makeClient(world.clock, { DB: d1 });
      const ask: World["ask"] = (method, path, body) =>
        call(method, `/api/v1${path}`, { key: world.key, ...(body && { body }) });
      const answer = await WRITES[write]?.(ask, world);
      expect([200, 402, 404], JSON.stringify(answer?.body)).toContain(answer?.status);
      await world.cron();
      const { 1: first, 2: second = 0, 3: none = 0 } = await world.periods();
      expect([first, none]).toEqual([2, 0]);
      // The period has the pack's items at the time of writing. It is not granted if the pack was archived.
      const possible = other === "the pack's change" ? [1, 2] : other === "the pack's archiving" ? [0, 2] : [2];
      expect(possible, `${write}, ${other} before trip ${place}`).toContain(second);
      expect(await world.isSound()).toBe(true);
      expect((await world.done("GET", "/credits/recurring?userId=u")).recurring).toHaveLength(1);
    }
  });
});

it("a list and a plan between a period's beginning and its write show the pack's current items with the ids that the write will use, to both kinds of keys, in one trip, and write nothing", async () => {
  const { d1, spent } = countingD1(env.DB);
  const world = await periodsWorld({ bindings: { DB: d1 } });
  world.clock.advance(MONTH_MS);
  const headers = { "x-user-token": await userToken("u", world.clock) };
  const look = async () => {
    const query = { userId: "u", event: "chat", quantities: { count: 0, tokens: 120 } };
    spent();
    const bySecret = await world.list();
    expect(spent()).toMatchObject({ roundTrips: 1, rowsWritten: 0 });
    const plan = await world.done("POST", "/credits/plan", query);
    expect(spent()).toMatchObject({ roundTrips: 1, rowsWritten: 0 });
    const byUser = await world.call("GET", "/api/v1/credits?userId=u", { key: world.app.keys.pk_live, headers });
    expect(spent()).toMatchObject({ roundTrips: 1, rowsWritten: 0 });
    expect(byUser.body.credits).toEqual(bySecret);
    return { shown: bySecret, plan };
  };
  const first = await look();
  expect(first.shown.map(({ initial }: { initial: number }) => initial)).toEqual([5, 100]);
  const [item] = first.shown.slice(-1);
  const items = [
    { packItemId: item.packItemId, amount: 60, unit: "tokens" },
    { amount: 70, unit: "tokens" },
  ];
  expect((await world.admin("PATCH", `/packs/${world.packId}`, { items })).status).toBe(200);
  const { shown, plan } = await look();
  expect(shown.map(({ initial }: { initial: number }) => initial).sort()).toEqual([60, 70]);
  // The balance of the item that remains keeps its id.
  expect(shown.map(({ balanceId }: { balanceId: string }) => balanceId)).toContain(item.balanceId);
  expect(plan.uncovered).toBeNull();
  expect(await world.periods()).toEqual({ 1: 2 });
  const used = await world.event(120);
  expect(used.body.debits).toEqual(plan.debits);
  const written = (await storedBalances(world.app, "u")).slice(-2).map(({ id }) => id);
  expect(written.sort()).toEqual(shown.map(({ balanceId }: { balanceId: string }) => balanceId).sort());
  expect(await world.isSound()).toBe(true);
});

it("a list and a plan between a period's beginning and its write show all of more than 50 balances, which the next write or the cron then grants with the same ids", async () => {
  const items = times(8, () => ({ amountMinor: 1_000, unit: "tokens" }) as const);
  for (const who of ["write", "cron"]) {
    const world = await periodsWorld({ items, fields: { every: "day", rolloverPeriods: 12 } });
    world.clock.advance(20 * DAY_MS);
    const shown = await world.list();
    expect(shown).toHaveLength(13 * 8);
    if (who === "write") expect((await world.event(100)).status).toBe(200);
    for (let run = 0; who === "cron" && run < 4; run++) expect(await world.cron()).toEqual([]);
    const ids = (await storedBalances(world.app, "u")).slice(8).map(({ id }) => id);
    expect(ids.toSorted()).toEqual(shown.map(({ balanceId }: { balanceId: string }) => balanceId).sort());
    expect(Object.keys(await world.periods())).toHaveLength(14);
    expect(await world.isSound()).toBe(true);
  }
});

const alert = { mode: "live", name: "Low", unit: "tokens", below: { amount: 50 } };

it("an alert of a user with a recurring grant fires again in each period, even if the write that grants the period also spends it", async () => {
  const world = await periodsWorld({ types: ["credits.low"] });
  expect((await world.admin("POST", "/alerts", alert)).status).toBe(200);
  for (let month = 1; month <= 4; month++) {
    expect((await world.event(60)).status).toBe(200);
    expect(await storedMessages(world.app.environments.live), `month ${month}`).toHaveLength(month);
    expect((await world.event(10)).status).toBe(200);
    expect(await storedMessages(world.app.environments.live)).toHaveLength(month);
    world.clock.advance(MONTH_MS);
    if (month === 2) await world.cron();
  }
});

it("an alert of a user with a recurring grant fires again for a charge that was due after the period's beginning", async () => {
  const world = await periodsWorld({ types: ["credits.low"] });
  expect((await world.admin("POST", "/alerts", alert)).status).toBe(200);
  world.clock.advance(MONTH_MS - 60_000);
  expect((await world.event(60)).status).toBe(200);
  world.clock.advance(120_000);
  const hold = { userId: "u", event: "chat", quantities: { count: 0, tokens: 70 }, onExpiry: "charge" };
  await world.done("POST", "/usage/reservations", { ...hold, expiresInSeconds: 86_400 });
  world.clock.advance(DAY_MS);
  await world.event(0);
  expect((await storedMessages(world.app.environments.live)).map(({ data }) => data.remaining)).toEqual([40, 30]);
});

it("an alert of a user with a recurring grant does not fire when a period expires and the next one begins", async () => {
  await env.DB.prepare("DELETE FROM balance_expiries").run();
  const world = await periodsWorld({ types: ["credits.*", "balance.expired"] });
  expect((await world.admin("POST", "/alerts", alert)).status).toBe(200);
  for (const userId of ["v", "w"]) {
    await world.done("POST", "/credits/recurring", { userId, packId: world.packId, every: "month" });
  }
  world.clock.advance(MONTH_MS);
  expect(await runPart(findExpiries, makeAdminCtx(world.clock))).toEqual([]);
  expect(await world.periods()).toEqual({ 1: 2, 2: 2 });
  const ofUser = (await storedMessages(world.app.environments.live)).filter(({ subject }) => subject === "u");
  expect(ofUser.map(({ type }) => type).sort()).toEqual([
    ...["balance.expired", "balance.expired"],
    ...["credits.granted", "credits.granted"],
  ]);
  const all = (await storedMessages(world.app.environments.live)).map(({ type }) => type);
  expect(all.filter((type) => type === "credits.low" || type === "credits.depleted")).toEqual([]);
  expect(all.filter((type) => type === "balance.expired")).toHaveLength(6);
  // A second run finds nothing.
  expect(await runPart(findExpiries, makeAdminCtx(world.clock))).toEqual([]);
  expect(await storedMessages(world.app.environments.live)).toHaveLength(12);
});

import { env } from "cloudflare:workers";
import { afterAll, describe, expect, it } from "vitest";
import { grantDuePeriods } from "../../src/books/recurring/grant-due.ts";
import { randomId } from "../../src/lib/ids.ts";
import { DAY_MS, iso } from "../../src/lib/time.ts";
import { runPart } from "../support/cron.ts";
import { expectLedgerInvariants } from "../support/invariants.ts";
import { createRandom, type Random } from "../support/random.ts";
import {
  type Every,
  grantDue,
  type ModelPack,
  type ModelPeriod,
  type ModelRecurring,
  resume,
  runningAt,
  shown,
  startOf,
} from "../support/recurring-model.ts";
import { RANDOM_SEED, soakCount, soakPart, timeoutOf } from "../support/soak.ts";
import { clockWorld } from "../support/test-clock.ts";
import { atRandom, Clock, makeAdminCtx, makeApp, makeClient } from "../support/world.ts";

afterAll(expectLedgerInvariants);

const EVERY = ["day", "week", "month", "year"] as const;
const OPERATIONS_A_HISTORY = 50;
const HISTORIES = soakCount(1, 1);

interface Stored {
  readonly id: string;
  readonly ref: string;
  readonly item: string;
  readonly initial: number;
  readonly fromMs: number;
  readonly expiresMs: number;
  readonly revoked: 0 | 1;
}

async function readStored(environmentId: number): Promise<Stored[]> {
  const { results } = await env.DB.prepare(
    `SELECT b.id, b.external_ref AS ref, b.pack_item_id AS item, b.initial_minor / 1000 AS initial, b.granted_at_ms AS fromMs,
       b.expires_at_ms AS expiresMs, b.revoked_at_ms IS NOT NULL AS revoked
     FROM accounts AS a CROSS JOIN credit_balances AS b ON b.account_id = a.id WHERE a.environment_id = ? ORDER BY b.grant_seq`,
  )
    .bind(environmentId)
    .all<Stored>();
  return results;
}

const CRON_RUNS_MAX = 10;
const isPeriodDue = async (environmentId: number, nowMs: number): Promise<boolean> =>
  (await env.DB.prepare("SELECT 1 FROM accounts WHERE environment_id = ? AND recurring_due_at_ms <= ?")
    .bind(environmentId, nowMs)
    .first()) !== null;

const textOf = (ref: string, { packItemId, initial, fromMs, expiresMs, revoked }: Omit<ModelPeriod, "of" | "n">) =>
  [ref, packItemId, initial, iso(fromMs), expiresMs > 9e14 ? "never" : iso(expiresMs), revoked].join(" ");
const inText = (period: ModelPeriod) => textOf(`recurring:${period.of.id}:${period.n}`, period);
const storedInText = ({ ref, item, revoked, ...rest }: Stored) =>
  textOf(ref, { ...rest, packItemId: item, revoked: revoked === 1 });

/** A random history of one user, in Purser and in the model. */
async function play(seed: number): Promise<void> {
  const random = createRandom(seed);
  const clock = new Clock();
  clock.ms = Date.UTC(2026, random.integer(0, 11), random.pick([1, 15, 28, 29, 30, 31]), 12) + random.integer(0, 999);
  const app = await makeApp();
  const call = makeClient(clock, {}, randomId, atRandom(2, random));
  const key = app.keys.sk_live;
  const callOk = async (method: string, path: string, body?: object, by = key) => {
    const answer = await call(method, path, { key: by, ...(body && { body }) });
    expect(answer.status, `${path} ${JSON.stringify(answer.body)} (PROOF_SEED=${seed})`).toBe(200);
    return answer.body;
  };
  const admin = (method: string, path: string, body: object) =>
    callOk(method, `/api/v1/admin/apps/${app.appId}${path}`, body, env.ADMIN_TOKEN);
  const recurringPath = "/api/v1/credits/recurring";
  const ask = (path: string, body: object) => call("POST", `${recurringPath}/${path}`, { key, body });
  const someItems = () =>
    Array.from({ length: random.integer(1, 3) }, () => ({ amount: random.integer(1, 900), unit: "tokens" }));
  const packs: ModelPack[] = [];
  const readItems = (pack: ModelPack, { items }: { items: { packItemId: string; amount: number }[] }) => {
    pack.items = items.map(({ packItemId, amount }) => ({ packItemId, initial: amount }));
  };
  for (const packName of ["One", "Two"]) {
    const created = await admin("POST", "/packs", { packName, items: someItems() });
    const pack: ModelPack = { packId: created.packId, items: [], archived: false };
    readItems(pack, created);
    packs.push(pack);
  }
  const all: ModelRecurring[] = [];
  const granted: ModelPeriod[] = [];
  const settle = () => void granted.push(...grantDue(all, clock.ms));

  const operations = {
    make: async () => {
      if (all.length === 4) return;
      const every: Every = random.pick(EVERY);
      const anchorMs = clock.ms + random.integer(-300, 300) * DAY_MS * Number(random.chance(0.6));
      const endsMs = random.chance(0.3) ? anchorMs + random.integer(1, 900) * DAY_MS : Infinity;
      const rollover = random.pick([0, 0, 1, 3, 12, null] as const);
      const timeZone = random.pick(["UTC", "Europe/Berlin", "America/St_Johns", "Australia/Lord_Howe"]);
      const pack = random.pick(packs);
      const id = `rec_${seed}_${all.length}_${app.environments.live.id}`;
      const times = { startsAt: iso(anchorMs), ...(endsMs < Infinity && { endsAt: iso(endsMs) }) };
      const body = {
        recurringId: id,
        userId: "u",
        packId: pack.packId,
        every,
        rolloverPeriods: rollover,
        timeZone,
        ...times,
      };
      const answer = await call("POST", recurringPath, { key, body });
      settle();
      if (pack.archived) return expect(answer.body.error.code).toBe("credit_pack_not_found");
      expect(answer.status, JSON.stringify(answer.body)).toBe(200);
      all.push({ id, pack, every, anchorMs, timeZone, endsMs, rollover, lastN: 0, status: "active", finalN: Infinity });
      settle();
    },
    leap: async () => {
      const next = all.flatMap((of) => (of.status === "active" ? [startOf(of, of.lastN + 1)] : []));
      const later = next.filter((ms) => ms > clock.ms);
      if (later.length > 0 && random.chance(0.6)) clock.ms = Math.min(...later) - random.integer(0, 1);
      else clock.advance(random.pick([1, 5, 40, 400]) * random.integer(1, DAY_MS));
    },
    cron: async () => {
      // One run grants as much of a user as fits into a batch; later runs grant the rest.
      for (let run = 0; run < CRON_RUNS_MAX; run++) {
        expect(await runPart(grantDuePeriods, makeAdminCtx(clock))).toEqual([]);
        if (!(await isPeriodDue(app.environments.live.id, clock.ms))) break;
      }
      settle();
    },
    use: async () => {
      const quantities = { count: 0, tokens: random.integer(1, 300) };
      const onShortage = random.pick(["reject", "partial"] as const);
      const body = { eventId: random.id("e"), userId: "u", event: "chat", quantities, onShortage };
      const plan = await callOk("POST", "/api/v1/credits/plan", { userId: "u", event: "chat", quantities });
      const { status, body: used } = await call("POST", "/api/v1/usage/events", { key, body });
      // The plan already pays from a due period that the event then writes.
      if (status === 200) expect(used.debits).toEqual(plan.debits);
      else expect([status, used.error.details.uncovered]).toEqual([402, plan.uncovered]);
      settle();
    },
    cancel: async () => {
      if (all.length === 0) return;
      const of = random.pick(all);
      const at = random.pick(["period_end", "now"] as const);
      settle();
      expect((await ask(`${of.id}/cancel`, { at })).status).toBe(200);
      if (of.status !== "ended") of.finalN = of.lastN;
      of.status = "ended";
      if (at === "period_end") return;
      of.finalN = 0;
      for (const period of granted) if (period.of === of && period.expiresMs > clock.ms) period.revoked = true;
    },
    resume: async () => {
      const of = all.find(({ status }) => status === "suspended") ?? all[0];
      if (of === undefined) return;
      settle();
      const answer = await ask(`${of.id}/resume`, {});
      if (of.status !== "suspended") return expect(answer.body.error.code).toBe("invalid_request");
      if (resume(of, clock.ms) === "refused") return expect(answer.body.error.code).toBe("credit_pack_not_found");
      expect(answer.status, JSON.stringify(answer.body)).toBe(200);
      settle();
    },
    archive: async () => {
      const pack = random.pick(packs);
      await admin("POST", `/packs/${pack.packId}/${pack.archived ? "restore" : "archive"}`, {});
      pack.archived = !pack.archived;
    },
    edit: async () => {
      const pack = random.pick(packs);
      if (!pack.archived) readItems(pack, await admin("PATCH", `/packs/${pack.packId}`, { items: someItems() }));
    },
  };

  const compare = async (where: string) => {
    const stored = await readStored(app.environments.live.id);
    expect(stored.map(storedInText).sort(), `balances ${where}`).toEqual(granted.map(inText).sort());
    // Due periods are shown as they will be written.
    const due = all.map((of) => ({ ...of }));
    const toCome = grantDue(due, clock.ms);
    const isLive = ({ expiresMs, revoked }: ModelPeriod) => expiresMs > clock.ms && !revoked;
    const live = [...granted, ...toCome].filter(isLive);
    const { credits } = await callOk("GET", "/api/v1/credits?userId=u&includeExpired=true");
    const ofList = (credits as { status: string; packItemId: string; initial: number; expiresAt: string | null }[])
      .filter(({ status }) => status === "active" || status === "depleted")
      .map(({ packItemId, initial, expiresAt }) => `${packItemId} ${initial} ${expiresAt}`);
    const ofModel = live.map(({ packItemId, initial, expiresMs }) => `${packItemId} ${initial} ${iso0(expiresMs)}`);
    expect(ofList.sort(), `list ${where}`).toEqual(ofModel.sort());
    const { recurring } = await callOk("GET", `${recurringPath}?userId=u`);
    const listed = recurring.map(({ recurringId, status, period, nextAt }: ReturnType<typeof shown>) => ({
      ...{ recurringId, status, period, nextAt },
    }));
    expect(listed, `recurring grants ${where}`).toEqual(due.map((of) => shown(of, clock.ms)));
    for (const { id, rollover } of all) {
      if (rollover === null) continue;
      const periods = new Set(live.filter(({ of }) => of.id === id).map(({ n }) => n));
      expect(periods.size, `periods of ${id} that are live ${where}`).toBeLessThanOrEqual(rollover + 1);
    }
    return credits;
  };

  for (let count = 0; count < OPERATIONS_A_HISTORY; count++) {
    const name = someOperation(random);
    const where = `after operation ${count} (${name}), PROOF_SEED=${seed}, ${iso(clock.ms)}`;
    await operations[name]();
    const before = await compare(where);
    if (!random.chance(0.3)) continue;
    // The cron writes what the list showed, with the same ids.
    await operations.cron();
    expect(await compare(`${where}, then the cron`)).toEqual(before);
  }
}

const iso0 = (ms: number) => (ms === Infinity ? null : iso(ms));

const someOperation = (random: Random) =>
  random.weighted({ make: 6, leap: 14, cron: 4, use: 8, cancel: 2, resume: 4, archive: 4, edit: 3 });

describe(`random recurring grants from PROOF_SEED=${RANDOM_SEED} on`, () => {
  it("issue the model's balances, show them in lists before they are written, and never roll over more periods than allowed", {
    timeout: timeoutOf(HISTORIES * OPERATIONS_A_HISTORY, 2_000),
  }, async () => {
    const tell = soakPart("model of recurring grants", HISTORIES * OPERATIONS_A_HISTORY, "operations", RANDOM_SEED);
    for (let history = 0; history < HISTORIES; history++) {
      await play(RANDOM_SEED + history);
      tell(OPERATIONS_A_HISTORY);
    }
  });
});

it("a test clock that moves ten years ahead grants each monthly period at its own beginning, also from a month's last day", {
  timeout: timeoutOf(130, 2_000),
}, async () => {
  const world = await clockWorld();
  await world.move(1);
  const startMs = world.clock.ms;
  const startsAt = iso(Date.UTC(2026, 0, 31, 23, 59, 59, 999));
  const body = { recurringId: `rec_${world.app.environments.test.id}`, userId: "u", packId: world.packId };
  await world.callOk("POST", "/credits/recurring", { ...body, every: "month", rolloverPeriods: 1, startsAt });
  const targetMs = Date.UTC(2035, 11, 31);
  let answer = await world.put(targetMs - startMs);
  for (let runs = 0; runs < 400 && answer.body.status !== "ready"; runs++) {
    expect(answer.status, JSON.stringify(answer.body)).toBe(200);
    await world.cron();
    answer = await world.admin("GET", "/clock?mode=test");
  }
  expect(answer.body.status).toBe("ready");
  const stored = await readStored(world.app.environments.test.id);
  const of = { anchorMs: Date.parse(startsAt), every: "month", timeZone: "UTC" } as const;
  const expected = Array.from({ length: runningAt(of, targetMs) }, (_, index) => [
    `recurring:${body.recurringId}:${index + 1}`,
    iso(startOf(of, index + 1)),
    iso(startOf(of, index + 3)),
  ]);
  expect(expected).toHaveLength(119);
  expect(stored.map(({ ref, fromMs, expiresMs }) => [ref, iso(fromMs), iso(expiresMs)])).toEqual(expected);
  // Each period was written at its own beginning, not later.
  const entries = await world.callOk("GET", "/credits/history?userId=u&limit=500");
  const written = entries.entries.map(({ occurredAt }: { occurredAt: string }) => occurredAt).reverse();
  expect(written).toEqual(expected.map(([, fromAt]) => fromAt));
});

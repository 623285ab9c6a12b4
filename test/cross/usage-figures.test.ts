import { env } from "cloudflare:workers";
import { afterAll, expect, it } from "vitest";
import { makeStatements } from "../../src/books/statements/make-statements.ts";
import { readUsageFigures } from "../../src/books/usage/usage-figures.ts";
import { DAY_MS, HOUR_MS, iso } from "../../src/lib/time.ts";
import { runPart, sumDaysOf } from "../support/cron.ts";
import { expectLedgerInvariants } from "../support/invariants.ts";
import { createRandom } from "../support/random.ts";
import { FIXED_SEED } from "../support/soak.ts";
import { runHoldsPart } from "../support/spender.ts";
import { Clock, makeAdminCtx, makeApp, makeClient, makePack } from "../support/world.ts";

afterAll(expectLedgerInvariants);

const [JANUARY, FEBRUARY] = [Date.UTC(2026, 0, 1), Date.UTC(2026, 1, 1)];
const USERS = ["ana", "bob", "cleo"];

type Amounts = Readonly<Record<string, number>>;
type Name = "day" | "event" | "model" | "time" | "userId";
type Group = { readonly [Of in Name]?: unknown } & {
  readonly events: number;
  readonly quantities: Amounts;
  readonly debited?: Amounts;
  readonly meters?: Amounts;
};

/** The sums of some groups by a key, in the order of the keys. The amounts of this test are exact doubles. */
function sumsBy(groups: readonly Group[], keyOf: (group: Group) => unknown) {
  const sums = new Map<
    string,
    { events: number; quantities: Record<string, number>; meters: Record<string, number> }
  >();
  for (const group of groups) {
    const key = String(keyOf(group));
    const sum = sums.get(key) ?? { events: 0, quantities: {}, meters: {} };
    sum.events += group.events;
    for (const [unit, amount] of Object.entries(group.quantities))
      sum.quantities[unit] = (sum.quantities[unit] ?? 0) + amount;
    for (const [name, sent] of Object.entries(group.meters ?? {})) sum.meters[name] = (sum.meters[name] ?? 0) + sent;
    sums.set(key, sum);
  }
  return [...sums].sort(([a], [b]) => (a < b ? -1 : 1));
}

/** A month of usage by several users: paid, partly paid, free, committed and charged. */
async function makeMonth() {
  const random = createRandom(FIXED_SEED);
  const [app, clock] = [await makeApp(), new Clock()];
  const call = makeClient(clock);
  const key = app.keys.sk_live;
  const post = async (path: string, body: object) => {
    const { status } = await call("POST", `/api/v1/${path}`, { key, body });
    expect(status, path).toBe(200);
  };
  const packId = await makePack(app.appId, "Start", [
    { amountMinor: 40_000_000, unit: "tokens" },
    { amountMinor: 30_000_000, unit: "cents" },
  ]);
  clock.ms = JANUARY;
  const rules = [{ unit: "cents", per: { input: 0.125, output: 0.25 } }];
  const prices = { mode: "live", rules, costs: [{ event: "chat", per: { input: 0.125, output: 0 } }] };
  await call("PUT", `/api/v1/admin/apps/${app.appId}/prices`, { key: env.ADMIN_TOKEN, body: prices });
  for (const userId of USERS) await post("credits/grant", { userId, packId });
  for (let n = 0; clock.ms < FEBRUARY - 2 * DAY_MS; n++) {
    clock.advance(random.integer(HOUR_MS, 20 * HOUR_MS));
    const usage = {
      userId: random.pick(USERS),
      event: random.pick(["chat", "image"]),
      ...(random.chance(0.6) ? { model: random.pick(["large", "small"]) } : {}),
      ...random.pick([
        { quantities: { count: 0, tokens: random.integer(1, 9_000) / 8 } },
        { quantities: { count: 0, cents: random.integer(1, 40) / 4 } },
        { quantities: { count: 0, tokens: 0 } },
        { meters: { input: random.integer(1, 4_000) / 8, output: random.integer(0, 300) } },
      ]),
    };
    const kind = random.pick(["event", "commit", "charge"]);
    if (kind === "event") await post("usage/events", { ...usage, eventId: `e${n}`, onShortage: "partial" });
    else if (kind === "commit") {
      const reservation = {
        ...usage,
        meters: undefined,
        quantities: { count: 0, tokens: 1 / 8 },
        expiresInSeconds: 600,
      };
      const reserved = await call("POST", "/api/v1/usage/reservations", {
        key,
        body: { ...reservation, reservationId: `r${n}` },
      });
      if (reserved.status !== 200) continue;
      const { userId: _, event: __, model: ___, ...used } = usage;
      const commit = { eventId: `c${n}`, ...used, onShortage: "partial" };
      await post(`usage/reservations/r${n}/commit`, commit);
    } else {
      const body = { ...usage, reservationId: `r${n}`, expiresInSeconds: 60, onExpiry: "charge" };
      await call("POST", "/api/v1/usage/reservations", { key, body });
      clock.advance(120_000);
      await runHoldsPart({ clock });
    }
  }
  clock.ms = FEBRUARY + HOUR_MS;
  return { app, clock, call, key };
}

it("U17, U18, the usage page, the statement and the books have equal figures of a month", async () => {
  const { app, clock, call, key } = await makeMonth();
  const admin = makeAdminCtx(clock);
  expect(await sumDaysOf(admin, app.environments.live)).toEqual([]);
  const span = `from=${iso(JANUARY)}&to=${iso(FEBRUARY)}`;
  const ofAdmin = async (method: string, rest: string, body?: object) => {
    const path = `/api/v1/admin/apps/${app.appId}/${rest}`;
    return (await call(method, path, { key: env.ADMIN_TOKEN, ...(body === undefined ? {} : { body }) })).body;
  };

  // U17 adds up the events themselves.
  const ofUsers: Group[] = [];
  for (const userId of USERS) {
    const path = `/api/v1/usage?userId=${userId}&groupBy=day,event,model&${span}`;
    const { totals } = (await call("GET", path, { key })).body;
    ofUsers.push(...totals.map((group: Group) => ({ ...group, userId })));
  }
  const keys = { day: "time", event: "event", model: "model", user: "userId" } as const;
  for (const [groupBy, name] of Object.entries(keys)) {
    const { totals } = await ofAdmin("GET", `usage?mode=live&${span}&groupBy=${groupBy}`);
    const own = sumsBy(ofUsers, (group) => group[name]);
    expect(
      sumsBy(totals, (group) => group[name]),
      groupBy,
    ).toEqual(own);
    expect(own.length, groupBy).toBeGreaterThan(1);
  }

  // The costs are those that the events store.
  const costs = await env.DB.prepare(
    `SELECT event, sum(cost_minor) / 1e6 AS cost, sum(cost_minor IS NULL) AS withoutCost FROM usage_events
     WHERE environment_id = ? GROUP BY event ORDER BY event`,
  )
    .bind(app.environments.live.id)
    .all();
  expect((await ofAdmin("GET", `usage?mode=live&${span}&groupBy=event`)).totals).toMatchObject(costs.results);
  expect(costs.results).toMatchObject([
    { event: "chat", cost: expect.any(Number) },
    { event: "image", cost: null },
  ]);

  // The dashboard reads the same sums.
  const input = { mode: "live", from: JANUARY, to: FEBRUARY } as const;
  const { totals, users } = await readUsageFigures(admin, app.appId, input);
  expect(totals.byEvent.toSorted((a, b) => (a.event < b.event ? -1 : 1))).toMatchObject(costs.results);
  for (const group of ofUsers) Object.assign(group, { meters: {} });
  const day = (group: Group) => String(group.time).slice(0, 10);
  expect(sumsBy(totals.byDay, (group) => group.day)).toEqual(sumsBy(ofUsers, day));
  expect(sumsBy(totals.byEvent, (group) => group.event)).toEqual(sumsBy(ofUsers, (group) => group.event));
  expect(sumsBy(totals.byModel, (group) => group.model)).toEqual(sumsBy(ofUsers, (group) => group.model));
  expect(sumsBy(users.largest, (group) => group.userId)).toEqual(sumsBy(ofUsers, (group) => group.userId));

  // The statement counts what was paid, which is what U17 says was debited, and what the ledger says.
  await ofAdmin("POST", "statements", { mode: "live", month: "2026-01" });
  expect(await runPart(makeStatements, admin)).toEqual([]);
  const { lines } = await ofAdmin("POST", "statements", { mode: "live", month: "2026-01" });
  const debited = sumsBy(
    ofUsers.map((group) => ({ ...group, quantities: group.debited ?? {} })),
    () => "",
  );
  const spent = Object.fromEntries(lines.map((line: { unit: string; spent: number }) => [line.unit, line.spent]));
  expect(spent).toEqual(debited[0]?.[1].quantities);
  const { results } = await env.DB.prepare(
    `SELECT b.unit, -sum(l.delta_minor) / iif(b.unit = 'tokens', 1e3, 1e6) AS spent
     FROM accounts AS a JOIN credit_ledger AS l ON l.account_id = a.id AND l.cause = 'usage'
     JOIN credit_balances AS b ON b.account_id = l.account_id AND b.grant_seq = l.grant_seq
     WHERE a.environment_id = ? GROUP BY b.unit`,
  )
    .bind(app.environments.live.id)
    .all<{ unit: string; spent: number }>();
  expect(spent).toEqual(Object.fromEntries(results.map((row) => [row.unit, row.spent])));
});

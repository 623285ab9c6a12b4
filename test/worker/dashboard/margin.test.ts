import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { openDashboard, tableRows } from "../../support/browse.ts";
import { sumDaysOf } from "../../support/cron.ts";
import { makePricedSpender } from "../../support/metered.ts";
import { createRandom } from "../../support/random.ts";
import { FIXED_SEED } from "../../support/soak.ts";
import { makeAdminCtx, makeClient } from "../../support/world.ts";

const DAY_MS = 86_400_000;

/** The columns of a row: its name, debits, costs and events without a cost. */
interface Shown {
  readonly events: string;
  readonly cents: string;
  readonly debited: string;
  readonly cost: string;
  readonly withoutCost: string;
}

const numberText = (value: number): string => value.toLocaleString("en", { maximumFractionDigits: 6 });

it(`the page of costs and debits agrees with the users' totals and the usage of all users, by day, model and user (PROOF_SEED=${FIXED_SEED})`, {
  timeout: 120_000,
}, async () => {
  const random = createRandom(FIXED_SEED);
  const w = await makePricedSpender([
    { amountMinor: 5_000_000, unit: "cents", matches: [{ model: "large" }] },
    { amountMinor: 30_000_000, unit: "cents" },
    { amountMinor: 400_000, unit: "tokens", priority: 50 },
  ]);
  const call = makeClient(w.clock);
  const admin = (path: string) => call("GET", `/api/v1/admin/apps/${w.app.appId}${path}`, { key: env.ADMIN_TOKEN });
  await w.setPrices(
    [
      { unit: "cents", per: { input: 0.001, output: 0.003 } },
      { model: "small", unit: "tokens", per: { input: 1, output: 2 } },
    ],
    {
      costs: [
        { model: "large", per: { input: 0.0007, output: 0.0021 } },
        { event: "image", perEvent: 0.5 },
      ],
    },
  );
  const users = [w.userId, "other"];
  const fromMs = w.clock.ms - 3 * DAY_MS;
  for (let n = 0; n < 60; n++) {
    const used = random.chance(0.7)
      ? { meters: { input: random.integer(0, 900), output: random.integer(0, 400) } }
      : { quantities: { cents: random.integer(1, 900) / 1_000 } };
    const answer = await w.spend(`e${n}`, {
      userId: random.pick(users),
      event: random.pick(["chat", "image"]),
      ...(random.chance(0.8) && { model: random.pick(["large", "small"]) }),
      ...used,
      ...{ occurredAt: new Date(w.clock.ms - random.integer(0, 2) * DAY_MS).toISOString(), onShortage: "partial" },
    });
    // Prices of a time before the list are those of the list, which came later.
    expect(answer.status, JSON.stringify(answer.body)).toBe(200);
  }
  await sumDaysOf(makeAdminCtx(w.clock), w.app.environments.live);

  const [from, to] = [new Date(fromMs - (fromMs % DAY_MS)), new Date(w.clock.ms - (w.clock.ms % DAY_MS) + DAY_MS)];
  const span = `from=${from.toISOString()}&to=${to.toISOString()}`;
  const debitedBy = async (groupBy: string, key: (group: Record<string, string | null>) => string) => {
    const sums = new Map<string, number>();
    for (const userId of users) {
      const { body } = await w.get(`/api/v1/usage?userId=${encodeURIComponent(userId)}&${span}&groupBy=${groupBy}`);
      for (const group of body.totals) {
        const name = groupBy === "event" ? userId : key(group);
        sums.set(name, Math.round(((sums.get(name) ?? 0) + (group.debited.cents ?? 0)) * 1e6) / 1e6);
      }
    }
    return sums;
  };
  const expectedOf = async (by: string, userGroup: string, key: (group: Record<string, string | null>) => string) => {
    const { body } = await admin(`/usage?mode=live&${span}&groupBy=${by}`);
    const debited = await debitedBy(userGroup, key);
    return new Map<string, Shown>(
      body.totals.map(
        (
          total: Record<string, string | null> & {
            events: number;
            quantities: { cents?: number };
            cost: number | null;
            withoutCost: number;
          },
        ) => {
          const name = key(total);
          return [
            name,
            {
              events: numberText(total.events),
              cents: numberText(total.quantities.cents ?? 0),
              debited: numberText(debited.get(name) ?? 0),
              cost: total.cost === null ? "unknown" : numberText(total.cost),
              withoutCost: numberText(total.withoutCost),
            },
          ];
        },
      ),
    );
  };
  const pages = await openDashboard(w.app, w.clock);
  const day = (at: Date) => at.toISOString().slice(0, 10);
  const { text, status } = await pages.read(`prices/margin?from=${day(from)}&to=${day(new Date(w.clock.ms))}`);
  expect(status).toBe(200);
  const shownIn = (label: string) =>
    new Map<string, Shown>(
      tableRows(text, label).map((row) => {
        const [name = "", events = "", cents = "", debited = "", cost = "", withoutCost = ""] = row.split(" ");
        return [name, { events, cents, debited, cost, withoutCost }];
      }),
    );
  const byDay = await expectedOf("day", "day", ({ time }) => (time ?? "").slice(0, 10));
  const byModel = await expectedOf("model", "model", ({ model }) => model ?? "none");
  const byUser = await expectedOf("user", "event", ({ userId }) => userId ?? "");
  expect(shownIn("By day")).toEqual(byDay);
  expect(shownIn("By model")).toEqual(byModel);
  expect(shownIn("By user")).toEqual(byUser);
  expect([...byDay.values()].some(({ debited, cents }) => debited !== cents)).toBe(true);
  expect([...byModel.keys()].toSorted()).toEqual(["large", "none", "small"]);
});

it("the page of costs and debits says when there is nothing, and rejects days that end before they begin", async () => {
  const w = await makePricedSpender();
  const pages = await openDashboard(w.app, w.clock);
  expect((await pages.read("prices/margin")).text).toContain("No usage in these days.");
  expect((await pages.read("prices/margin?from=2026-01-02&to=2025-12-01")).status).toBe(400);
});

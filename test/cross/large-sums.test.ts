import { env } from "cloudflare:workers";
import { afterAll, expect, it } from "vitest";
import { openDashboard, tableRows } from "../support/browse.ts";
import { sumDaysOf } from "../support/cron.ts";
import { expectLedgerInvariants } from "../support/invariants.ts";
import { Clock, makeAdminCtx, makeApp, makeClient, makeOpenAmountPack, startIsolate } from "../support/world.ts";

afterAll(expectLedgerInvariants);

const AMOUNTS = [8_796_093_022_208, 8_796_093_022_208, 8_796_093_022_207.999];
/** The sum of the amounts. The nearest double is 26388279066624. */
const SUM = "26388279066623.999";
const SHOWN = "26,388,279,066,623.999";

/** A user who was granted the largest amounts and used as much, and another who still has them. */
async function world() {
  const [clock, app] = [new Clock(), await makeApp()];
  await makeOpenAmountPack(app.appId, "Tokens", "tokens");
  const call = makeClient(clock);
  const post = async (path: string, body: object) =>
    expect((await call("POST", `/api/v1/${path}`, { key: app.keys.sk_live, body })).status).toBe(200);
  for (const [index, quantity] of AMOUNTS.entries()) {
    await post("credits/grant", { userId: "rich", packId: "tokens", quantity });
    const usage = { userId: "busy", eventId: `e${index}`, event: "chat", quantities: { count: 0, tokens: quantity } };
    await post("usage/events", { ...usage, model: "large", onShortage: "partial" });
  }
  await sumDaysOf(makeAdminCtx(clock), app.environments.live);
  const isolate = startIsolate(clock);
  /** The text of a response, because JSON.parse would round. */
  const textOf = async (path: string, key: string, body?: object) => {
    const init = { headers: { authorization: `Bearer ${key}`, "content-type": "application/json" } };
    const sent = body && { method: "POST", body: JSON.stringify(body) };
    const answer = await isolate.request(`https://purser.test/api/v1/${path}`, { ...init, ...sent });
    expect(answer.status, path).toBe(200);
    return answer.text();
  };
  return { app, textOf, key: app.keys.sk_live, dashboard: await openDashboard(app, clock) };
}

it("a sum above 2^53 steps has all its digits in responses: users, totals, usage of the environment, and an erasure", async () => {
  const { app, key, textOf } = await world();
  expect(await textOf("credits/users", key)).toContain(`"remaining":{"tokens":${SUM}}`);
  expect(await textOf("usage?userId=busy", key)).toContain(`"amount":${SUM}`);
  const span = "from=2026-01-01T00:00:00Z&to=2026-02-01T00:00:00Z";
  for (const groupBy of ["day", "event", "model", "user"]) {
    const path = `admin/apps/${app.appId}/usage?mode=live&${span}&groupBy=${groupBy}`;
    expect(await textOf(path, env.ADMIN_TOKEN), groupBy).toContain(`"quantities":{"tokens":${SUM}}`);
  }
  const erasure = await textOf("erase-person", key, { distinctId: "rich", dryRun: true });
  expect(erasure).toContain(`"revoked":{"tokens":${SUM}}`);
  const erased = JSON.parse(await textOf("erase-person", key, { distinctId: "rich" }));
  const receipt = await textOf(`erasures/${erased.erasureId}`, key);
  expect(receipt).toContain(`"revoked":{"tokens":${SUM}}`);
});

it("a sum above 2^53 steps has all its digits on the pages of the dashboard: overview, users, a user, usage", async () => {
  const { dashboard } = await world();
  const read = async (path: string) => {
    const { status, text } = await dashboard.read(path);
    expect(status, path).toBe(200);
    return text;
  };
  expect(await read("overview")).toContain(`title="${SHOWN} tokens"`);
  expect(await read("users?by=id&q=ric")).toContain(SHOWN);
  expect(await read("users?userId=rich")).toContain(SHOWN);
  expect(tableRows(await read("users?userId=busy"), "Usage by model")).toEqual([`large 3 ${SHOWN}`]);
  const usage = await read("usage?from=2026-01-15&to=2026-01-15");
  expect(tableRows(usage, "By event")).toEqual([`chat 3 ${SHOWN}`]);
  expect(tableRows(usage, "Top users")[0]).toContain(SHOWN);
});

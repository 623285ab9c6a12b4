import { env } from "cloudflare:workers";
import { afterAll, expect, it } from "vitest";
import { openDashboard, queryOf } from "../../support/browse.ts";
import { expectLedgerInvariants } from "../../support/invariants.ts";
import { Clock, makeApp, makeClient, makePack } from "../../support/world.ts";

afterAll(expectLedgerInvariants);

async function world() {
  const clock = new Clock();
  const app = await makeApp();
  const { browser, at, send } = await openDashboard(app, clock);
  await makePack(app.appId, "Free", [{ amountMinor: 100_000, unit: "tokens" }]);
  const call = makeClient(clock);
  const post = (path: string, body: object) => call("POST", `/api/v1/${path}`, { key: app.keys.sk_live, body });
  return {
    ...{ app, browser, at, post, send },
    read: async (path: string, fields: Record<string, string> = {}) =>
      (await browser.get(`${at}/${path}${queryOf(fields)}`)).text(),
    list: async () =>
      (await call("GET", `/api/v1/admin/apps/${app.appId}/usage-limits?mode=live`, { key: env.ADMIN_TOKEN })).body
        .limits,
  };
}

const MESSAGES = { name: "Messages", amount: "50", unit: "count", every: "day", event: "chat.*", nonce: "n1" };

it("usage limits in the dashboard are created once even if the form is sent twice, changed, and deleted after a confirmation", async () => {
  const { read, send, list } = await world();
  for (let times = 0; times < 2; times++) expect((await send("usage-limits", MESSAGES)).status).toBe(303);
  const [limit, ...others] = await list();
  expect([limit, others]).toMatchObject([{ name: "Messages", amount: 50, matches: [{ event: "chat.*" }] }, []]);
  expect(await read("usage-limits")).toContain("50 count");
  const path = `usage-limits/${limit.limitId}`;
  expect((await send(path, { name: "Messages", amount: "1,200" })).status).toBe(303);
  expect(await list()).toMatchObject([{ amount: 1_200 }]);
  // The form accepts the amount as it shows it.
  const shown = /name="amount"[^>]*value="([^"]+)"|value="([^"]+)"[^>]*name="amount"/.exec(await read(path));
  expect((await send(path, { name: "Chats", amount: shown?.[1] ?? shown?.[2] ?? "" })).status).toBe(303);
  expect(await list()).toMatchObject([{ name: "Chats", amount: 1_200 }]);
  expect(await read(`${path}/delete`)).toContain("the used amounts are deleted");
  expect(await list()).toHaveLength(1);
  expect((await send(`${path}/delete`, { asked: "yes", sure: "yes" })).status).toBe(303);
  expect(await list()).toEqual([]);
  expect(await read(path)).toContain("Not found");
});

it("usage limits in the dashboard are rejected in the API's words, beside the field, and nothing is created", async () => {
  const { send, list } = await world();
  for (const wrong of [{ amount: "-1" }, { amount: "many" }, { name: "" }, { every: "year" }]) {
    const answer = await send("usage-limits", { ...MESSAGES, ...wrong });
    expect([answer.status, JSON.stringify(wrong)]).toEqual([400, JSON.stringify(wrong)]);
    expect(await answer.text()).toContain("field-error");
  }
  expect(await list()).toEqual([]);
});

it("usage limits in the dashboard are shown on a user's page with the used amount, as a bar", async () => {
  const { read, send, post } = await world();
  await send("usage-limits", MESSAGES);
  await post("credits/grant", { userId: "ana", packId: "Free" });
  for (let n = 0; n < 12; n++) {
    const body = { eventId: `e${n}`, userId: "ana", event: "chat.a", quantities: { tokens: 1 } };
    expect((await post("usage/events", body)).status).toBe(200);
  }
  const page = await read("users", { userId: "ana" });
  expect(page).toContain("12 of 50 count today");
  expect(page).toMatch(/<progress max="50" value="12" aria-label="Messages">/);
});

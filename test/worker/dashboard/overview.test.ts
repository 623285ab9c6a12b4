import { afterAll, expect, it } from "vitest";
import { flushActivity } from "../../../src/activity/count.ts";
import { browse } from "../../support/browse.ts";
import { expectLedgerInvariants } from "../../support/invariants.ts";
import { bound, Clock, makeApp, makeClient, makeLegacyPack } from "../../support/world.ts";

afterAll(expectLedgerInvariants);

const EVIL = `"><img src=x onerror=alert(1)>`;

async function world() {
  const clock = new Clock();
  const app = await makeApp();
  const browser = browse(clock);
  await browser.signIn();
  const at = `/admin/apps/${app.appId}/live`;
  const call = makeClient(clock);
  return {
    app,
    clock,
    post: (path: string, body: unknown) => call("POST", `/api/v1/${path}`, { key: app.keys.sk_live, body }),
    read: async (path: string) => {
      const answer = await browser.get(path.startsWith("/") ? path : `${at}/${path}`);
      expect(answer.status, path).toBe(200);
      const text = (await answer.text()).replaceAll("&amp;", "&");
      expect(text, path).not.toContain(EVIL);
      return text;
    },
    at,
  };
}

it("leads from shortages to who was short for which event, and from refused grants to why", async () => {
  const { app, post, read, at } = await world();
  const packId = await makeLegacyPack(app.appId, "Any", "tokens");
  const userId = `ana ${EVIL}`;
  await post("credits/grant", { userId, packId, quantity: 10 });
  const usage = { eventId: "e1", userId, event: `chat ${EVIL}`, quantities: { count: 0, tokens: 1_510 } };
  for (let n = 0; n < 3; n++) expect((await post("usage/events", usage)).status).toBe(402);
  expect((await post("credits/grant", { userId, packId: `none ${EVIL}` })).status).toBe(404);
  expect((await post("credits/grant", { userId: "bob", packId })).status).toBe(400);
  await flushActivity(bound());

  const overview = await read("overview");
  expect(overview).toContain(`<a href="${at}/refusals?kind=shortage">Insufficient credits (402)</a> <b>3</b>`);
  expect(overview).toContain(`<a href="${at}/refusals?kind=failed_grant">Refused grants</a> <b>2</b>`);
  const short = await read("refusals?kind=shortage");
  expect(short).toContain(`users?userId=ana+%22%3E`);
  for (const part of ["chat &quot;&gt;&lt;img", "1,500 tokens", `<span class="num">3</span>`, "approximate"]) {
    expect(short).toContain(part);
  }
  const refused = await read("refusals?kind=failed_grant");
  for (const part of [
    "none &quot;&gt;&lt;img",
    "there is no such pack",
    "the quantity is missing",
    "users?userId=bob",
  ]) {
    expect(refused).toContain(part);
  }
});

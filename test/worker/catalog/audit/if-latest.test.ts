import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { END_USER_SECRET } from "../../../support/end-user-setting.ts";
import { APPS } from "../../../support/paths.ts";
import { expectError } from "../../../support/rejections.ts";
import { type Answer, Clock, makeClient } from "../../../support/world.ts";

const key = env.ADMIN_TOKEN;
const live = { mode: "live" };
const limit = { ...live, name: "Free", unit: "count", amount: 50, every: "day" };
const alert = { ...live, name: "Low", unit: "tokens", below: { percent: 20 } };
const endpoint = { ...live, url: "https://hooks.example.com/purser" };
const items = [{ amount: 400, unit: "tokens" }];
const signingSecrets = ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"];

type Body = Answer["body"];
type Made = readonly [path: string, body: object, pathOf: (body: Body) => string];
const LIMIT: Made = ["/usage-limits", limit, ({ limitId }) => `/usage-limits/${limitId}`];
const ALERT: Made = ["/alerts", alert, ({ alertId }) => `/alerts/${alertId}`];
const ENDPOINT: Made = ["/webhooks", endpoint, ({ webhookId }) => `/webhooks/${webhookId}`];
const PACK: Made = ["/packs", { packName: "Starter", items }, ({ packId }) => `/packs/${packId}`];

/** Each change that a file of settings makes: its request, below the path of what was made before. */
const CHANGES: [name: string, made: Made | null, method: string, path: string, body?: object][] = [
  ["a new limit", null, "POST", "/usage-limits", limit],
  ["a changed limit", LIMIT, "PATCH", "", { amount: 60 }],
  ["a deleted limit", LIMIT, "DELETE", ""],
  ["a new alert", null, "POST", "/alerts", alert],
  ["a changed alert", ALERT, "PATCH", "", { below: { percent: 10 } }],
  ["a deleted alert", ALERT, "DELETE", ""],
  ["a new endpoint", null, "POST", "/webhooks", endpoint],
  ["a changed endpoint", ENDPOINT, "PATCH", "", { isEnabled: false }],
  ["a deleted endpoint", ENDPOINT, "DELETE", ""],
  ["a new pack", null, "POST", "/packs", { packName: "New", items }],
  ["a changed pack", PACK, "PATCH", "", { defaultExpiryDays: 3 }],
  ["an archived pack", PACK, "POST", "/archive"],
  ["names of units", null, "PUT", "/unit-names", { ...live, names: { count: { one: "credit", other: "credits" } } }],
  ["expiry notices", null, "PUT", "/expiry-notices", { ...live, days: [7] }],
  ["sign-in", null, "PUT", "/end-user-auth", { ...live, setting: { type: "hs256", secret: END_USER_SECRET } }],
  ["prices", null, "PUT", "/prices", { ...live, rules: [{ unit: "count", perEvent: 1 }] }],
  ["Stripe", null, "PUT", "/stripe", { ...live, setting: { currency: "usd", prices: [], signingSecrets } }],
];

async function makeWorld() {
  const call = makeClient(new Clock());
  const { appId } = (await call("POST", APPS, { key, body: { name: "Desk" } })).body;
  const send = (method: string, path: string, body?: object, headers: Record<string, string> = {}) =>
    call(method, `${APPS}/${appId}${path}`, { key, headers, ...(body === undefined ? {} : { body }) });
  const audit = async (): Promise<{ action: string }[]> => (await send("GET", "/audit")).body.entries;
  const newest = async () => Number((await send("GET", "/audit?limit=1")).headers.get("latest-audit-entry"));
  /** Everything that a file of settings may have. */
  const settings = async () => {
    const lists = [
      "usage-limits",
      "alerts",
      "webhooks",
      "unit-names",
      "expiry-notices",
      "end-user-auth",
      "prices",
      "stripe",
    ];
    const answers = [...lists.map((name) => send("GET", `/${name}?mode=live`)), send("GET", "/packs")];
    return Promise.all(answers.map(async (answer) => (await answer).body));
  };
  return { send, audit, newest, settings };
}
const after = (seq: number) => ({ "if-latest-audit-entry": String(seq) });

describe.each(CHANGES)("%s", (_name, made, method, path, body) => {
  async function makeChangeWorld() {
    const world = await makeWorld();
    const base = made === null ? "" : made[2]((await world.send("POST", made[0], made[1])).body);
    const latest = await world.newest();
    const change = (seq: number) => world.send(method, `${base}${path}`, body, after(seq));
    return { ...world, latest, change };
  }

  it("is made if the named entry is the latest", async () => {
    const { audit, newest, latest, change } = await makeChangeWorld();
    expect((await change(latest)).status).toBe(200);
    expect(await newest()).toBe(latest + 1);
    expect(await audit()).toHaveLength(latest + 1);
  });

  it("is rejected, and changes nothing, if another entry follows, whatever it is about", async () => {
    const { send, audit, settings, latest, change } = await makeChangeWorld();
    await send("POST", "/keys", { kind: "secret", mode: "test" });
    const before = [await audit(), await settings()];
    for (const seq of [latest, latest - 1, 0])
      expectError(await change(seq), "changed_meanwhile", "if-latest-audit-entry");
    expect([await audit(), await settings()]).toEqual(before);
  });
});

it("changes one of two settings that race on the same entry", async () => {
  const { send, newest } = await makeWorld();
  const { limitId } = (await send("POST", "/usage-limits", limit)).body;
  const latest = await newest();
  const race = await Promise.all(
    [60, 70, 80].map((amount) => send("PATCH", `/usage-limits/${limitId}`, { amount }, after(latest))),
  );
  expect(race.map(({ status }) => status).sort()).toEqual([200, 409, 409]);
  const won = race.find(({ status }) => status === 200)?.body.amount;
  const { limits } = (await send("GET", "/usage-limits?mode=live")).body;
  expect(limits).toMatchObject([{ amount: won }]);
});

it.each(["", "aud_1", "-1", "1.5", "9007199254740993"])("rejects the malformed entry %j", async (seq) => {
  const { send, audit } = await makeWorld();
  const answer = await send("POST", "/alerts", alert, { "if-latest-audit-entry": seq });
  expectError(answer, "invalid_request", "if-latest-audit-entry");
  expect(await audit()).toHaveLength(1);
});

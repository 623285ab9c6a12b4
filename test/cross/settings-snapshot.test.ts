import { env } from "cloudflare:workers";
import { afterAll, expect, it } from "vitest";
import { changeFeature, readSettingsSnapshot } from "../../src/db/settings-snapshot.ts";
import { countingD1 } from "../support/counting-d1.ts";
import { expectLedgerInvariants } from "../support/invariants.ts";
import { wallet } from "../support/spender.ts";
import { Clock, makeApp, makeClient, makePack } from "../support/world.ts";
import { wrappedD1 } from "../support/wrapped-d1.ts";

afterAll(expectLedgerInvariants);

async function enter(d1: D1Database) {
  const app = await makeApp();
  const packId = await makePack(app.appId, "Pack", [wallet]);
  const call = makeClient(new Clock(), { DB: d1 });
  const post = (path: string, body: object) => call("POST", `/api/v1${path}`, { key: app.keys.sk_live, body });
  const change = async (part: object | null) => {
    const { text, params } = changeFeature(app.environments.live.id, "notices", part);
    await env.DB.prepare(text)
      .bind(...params)
      .run();
  };
  const settingsSnapshot = () =>
    env.DB.prepare("SELECT settings_snapshot AS settingsSnapshot FROM environments WHERE id = ?")
      .bind(app.environments.live.id)
      .first("settingsSnapshot");
  return {
    change,
    settingsSnapshot,
    balances: async () =>
      (
        await env.DB.prepare(
          "SELECT a.user_id FROM accounts AS a LEFT JOIN credit_balances AS b ON b.account_id = a.id WHERE a.environment_id = ?",
        )
          .bind(app.environments.live.id)
          .all()
      ).results,
    grant: () => post("/credits/grant", { userId: "u", packId }),
    spend: (eventId: string) =>
      post("/usage/events", { eventId, userId: "u", event: "chat", quantities: { count: 0, cents: 1 } }),
  };
}

it("the settings snapshot of an environment is one text, null while there are no settings", async () => {
  const { change, settingsSnapshot } = await enter(env.DB);
  expect(await settingsSnapshot()).toBeNull();
  await change({ one: "'" });
  expect(readSettingsSnapshot((await settingsSnapshot()) as string)).toEqual({ notices: { one: "'" } });
  await change({ two: 2 });
  expect(await settingsSnapshot()).toBe('{"notices":{"two":2}}');
  await change(null);
  await change(null);
  expect(await settingsSnapshot()).toBeNull();
});

it("a write planned from an isolate's memory is repeated once after the settings snapshot changed", async () => {
  const counting = countingD1(env.DB);
  const { grant, spend, change } = await enter(counting.d1);
  const trips = async (eventId: string) => {
    counting.spent();
    expect((await spend(eventId)).body.debits).toMatchObject([{ amount: 1 }]);
    return counting.spent().roundTrips;
  };
  await grant();
  expect(await trips("warm")).toBe(1);
  await change({ on: true });
  expect(await trips("changed")).toBe(3);
});

it("a write is repeated when the settings snapshot changed between its read and its batch", async () => {
  let trip = 0;
  let meanwhile: { readonly before: number; readonly act: () => Promise<void> } | null = null;
  const d1 = wrappedD1(env.DB, async (send, statements) => {
    trip++;
    if (trip === meanwhile?.before) await meanwhile.act();
    return send(statements);
  });
  const { grant, spend, change } = await enter(d1);
  await grant();
  await change({ on: 1 });
  // The isolate's memory is outdated, so there are three trips: the batch from memory, the read, the batch.
  trip = 0;
  meanwhile = { before: 3, act: () => change({ on: 2 }) };
  expect((await spend("e")).body.debits).toMatchObject([{ amount: 1, remaining: 9 }]);
  expect(trip).toBe(5);
});

it("a user's first write, which creates the account, is repeated when the settings snapshot changed before it", async () => {
  let trip = 0;
  let act = async () => {};
  const d1 = wrappedD1(env.DB, async (send, statements) => {
    if (++trip === 2) await act();
    return send(statements);
  });
  const { grant, change, balances } = await enter(d1);
  await change({ on: 1 });
  trip = 0;
  act = () => change({ on: 2 });
  expect((await grant()).status).toBe(200);
  expect(trip).toBe(4);
  expect(await balances()).toEqual([{ user_id: "u" }]);
});

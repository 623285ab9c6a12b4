import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { expectError } from "../../../support/rejections.ts";
import { Clock, inTurn, makeApp, makeClient } from "../../../support/world.ts";

const credits = { count: { one: "credit", other: "credits" } };

async function namesWorld() {
  const app = await makeApp();
  const call = makeClient(new Clock(), {}, undefined, inTurn(2));
  const path = `/api/v1/admin/apps/${app.appId}/unit-names`;
  const set = (names: object, mode = "live") => call("PUT", path, { key: env.ADMIN_TOKEN, body: { mode, names } });
  const get = async (mode = "live") => (await call("GET", `${path}?mode=${mode}`, { key: env.ADMIN_TOKEN })).body;
  const acts = () =>
    env.DB.prepare("SELECT count(*) AS n FROM admin_audit WHERE app_id = ? AND action = 'unit_names.set'")
      .bind(app.appId)
      .first("n");
  return { app, call, set, get, acts };
}

it("the names of units are replaced as a whole, belong to one mode, and are in the audit when they change", async () => {
  const { set, get, acts } = await namesWorld();
  expect(await get()).toEqual({ names: {} });
  expect((await set({ ...credits, cents: { one: "cent", other: "cents" } })).body.names).toMatchObject(credits);
  expect((await set(credits)).body).toEqual({ names: credits });
  expect((await set(credits)).body).toEqual({ names: credits });
  expect([await get(), await get("test"), await acts()]).toEqual([{ names: credits }, { names: {} }, 2]);
  expect((await set({})).body).toEqual({ names: {} });
  expect(await get()).toEqual({ names: {} });
});

it("the names of units are read with a secret or publishable key, without a user's token, and cached for five minutes", async () => {
  const { app, call, set } = await namesWorld();
  await set(credits);
  for (const key of [app.keys.sk_live, app.keys.pk_live]) {
    const answer = await call("GET", "/api/v1/unit-names", { key });
    expect([answer.status, answer.body]).toEqual([200, { names: credits }]);
    expect(answer.headers.get("cache-control")).toBe("private, max-age=300");
    // The URL does not say which environment's names a browser has.
    expect(answer.headers.get("vary")).toBe("authorization");
  }
  expect((await call("GET", "/api/v1/unit-names", { key: app.keys.pk_test })).body).toEqual({ names: {} });
  expectError(await call("GET", "/api/v1/unit-names"), "invalid_key");
});

it.each<[string, object, string]>([
  ["without a plural", { count: { one: "credit" } }, "names.count.other"],
  ["with an empty name", { count: { one: "", other: "credits" } }, "names.count.one"],
  ["with white space around it", { count: { one: "credit", other: " credits" } }, "names.count.other"],
  ["of an unknown unit", { euro: { one: "euro", other: "euros" } }, "names.euro"],
  ["with an unknown field", { count: { one: "credit", other: "credits", many: "x" } }, "names.count.many"],
])("the names of units are rejected %s, and nothing is written", async (_, names, param) => {
  const { set, get, acts } = await namesWorld();
  expectError(await set(names), "invalid_request", param);
  expect([await get(), await acts()]).toEqual([{ names: {} }, 0]);
});

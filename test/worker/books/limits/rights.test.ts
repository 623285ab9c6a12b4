import { env } from "cloudflare:workers";
import { afterAll, expect, it } from "vitest";
import { writeKey } from "../../../../src/db/key-form.ts";
import type { ErrorCode } from "../../../../src/errors.ts";
import { sha256 } from "../../../../src/lib/encoding.ts";
import { randomId } from "../../../../src/lib/ids.ts";
import { openDashboard } from "../../../support/browse.ts";
import { documentOf } from "../../../support/exports.ts";
import { expectLedgerInvariants } from "../../../support/invariants.ts";
import { limitsWorld } from "../../../support/limits.ts";
import { expectError } from "../../../support/rejections.ts";
import { makeKey } from "../../../support/world.ts";

afterAll(expectLedgerInvariants);

type World = Awaited<ReturnType<typeof limitsWorld>>;
const amountPath = ({ limitIds }: World) => `/usage/limits/${limitIds[0]}/amount`;

it("exports a person's use of each limit, as the list shows it, and an empty list without limits", async () => {
  const world = await limitsWorld({ limits: [{ amount: 50 }, { unit: "tokens", amount: 9, every: "month" }] });
  await world.use(12);
  await world.callOk("PUT", amountPath(world), { userId: "u", amount: null });
  const document = await documentOf(world.app, "u", world.clock);
  expect(document.person?.usageLimits).toEqual(await world.checkpoints());
  expect(document.person?.usageLimits).toMatchObject([
    { used: 12, amount: null },
    { used: 0, amount: 9 },
  ]);
  const without = await limitsWorld({ limits: [] });
  expect((await documentOf(without.app, "u", without.clock)).person?.usageLimits).toEqual([]);
});

it("removes an erased person's override, and counts from 0 after the erasure is lifted", async () => {
  const world = await limitsWorld();
  await world.use(3);
  await world.holdOk(2);
  await world.callOk("PUT", amountPath(world), { userId: "u", amount: 8 });
  const { erasureId, status } = await world.callOk("POST", "/erase-person", { distinctId: "u" });
  expect(status).toBe("completed");
  expectError(await world.ask("PUT", amountPath(world), { userId: "u", amount: 4 }), "person_erased");
  expectError(await world.event(1), "person_erased");
  expect(await world.checkpoints()).toMatchObject([{ used: 0, amount: 10 }]);
  const counters = await env.DB.prepare(
    "SELECT has_override AS own, override_minor AS minor FROM usage_counters WHERE limit_id = ?",
  )
    .bind(world.limitIds[0])
    .all();
  expect(counters.results).toEqual([{ own: 0, minor: null }]);
  await world.callOk("POST", `/erasures/${erasureId}/lift`, {});
  await world.grant();
  await world.use(10);
  expect((await world.event(1)).body.error.details).toMatchObject({ used: 10, amount: 10 });
});

it("verification finds a counter that is not the sum of the counted usage, names its limit, and finds nothing after the correction", async () => {
  const world = await limitsWorld({ limits: [{}, { every: "month" }] });
  await world.use(3);
  await world.holdOk(2);
  const set = (minor: number) =>
    env.DB.prepare("UPDATE usage_counters SET used_minor = CAST(? AS INTEGER) WHERE limit_id = ?")
      .bind(minor, world.limitIds[1])
      .run();
  const { read } = await openDashboard(world.app);
  for (const wrong of [4_999, 3_000, 0]) {
    await set(wrong);
    expect((await read("users/verify?userId=u")).text).toContain("✗ 1 flaw<");
    const { isSound, flaws } = await world.callOk("GET", "/credits/verify?userId=u");
    expect({ isSound, flaws }).toEqual({
      isSound: false,
      flaws: [{ balanceId: null, kind: "limit", limitId: world.limitIds[1], memberId: null }],
    });
    const { users } = (await world.admin("POST", "/verify", { mode: "live" })).body;
    expect(users).toMatchObject([{ userId: "u", isSound: false }]);
  }
  await set(5_000);
  expect((await world.callOk("GET", "/credits/verify?userId=u")).isSound).toBe(true);
});

it("sets and removes a user's amount only with the application's own secret key, and writes nothing otherwise", async () => {
  const world = await limitsWorld();
  const { app, limitIds } = world;
  const revoked = await makeKey(app.environments.live, "secret");
  await env.DB.prepare("UPDATE api_keys SET revoked_at_ms = 1 WHERE hash = ?")
    .bind(await sha256(revoked))
    .run();
  const other = await limitsWorld();
  const rejections: readonly (readonly [key: string | undefined, code: ErrorCode])[] = [
    [undefined, "invalid_key"],
    [writeKey("secret", app.environments.live, randomId("")), "invalid_key"],
    [revoked, "invalid_key"],
    [app.keys.pk_live, "forbidden"],
    [app.keys.sk_test, "not_found"],
    [other.key, "not_found"],
  ];
  const path = `/api/v1${amountPath(world)}`;
  for (const [key, code] of rejections) {
    const by = key === undefined ? {} : { key };
    expectError(await world.call("PUT", path, { ...by, body: { userId: "u", amount: 1 } }), code);
    expectError(await world.call("DELETE", `${path}?userId=u`, by), code);
  }
  const stored = await env.DB.prepare("SELECT count(*) AS count FROM usage_counters WHERE limit_id = ?")
    .bind(limitIds[0])
    .first<{ count: number }>();
  expect(stored?.count).toBe(0);
});

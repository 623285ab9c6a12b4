import { env } from "cloudflare:workers";
import { expect, it, vi } from "vitest";
import { resealSecrets } from "../../../src/auth/secrets.ts";
import { systemCtx } from "../../../src/auth/system-ctx.ts";
import { scheduled } from "../../../src/cron.ts";
import { randomId } from "../../../src/lib/ids.ts";
import { countingD1 } from "../../support/counting-d1.ts";
import { runPart } from "../../support/cron.ts";
import { END_USER_SETTING, storedSettingOf } from "../../support/end-user-setting.ts";
import { FAULTS, faultyD1 } from "../../support/faulty-d1.ts";
import { hookedD1 } from "../../support/hooked-d1.ts";
import { userToken } from "../../support/keyed-routes.ts";
import { expectError } from "../../support/rejections.ts";
import { type Bindings, bound, Clock, home, makeApp, makeClient } from "../../support/world.ts";

const NEXT = "the-next-secret-of-32-characters-";
const ROTATED = { SETTINGS_SECRET: NEXT, SETTINGS_SECRET_PREVIOUS: env.SETTINGS_SECRET };
const WHSEC = "whsec_0123456789abcdef0123456789abcdef";

/** An application that stores a secret of every kind, sealed with the previous SETTINGS_SECRET. */
async function world() {
  // A run seals a limited number of secrets, and none of them may belong to another test.
  await env.DB.batch(
    [
      "UPDATE environments SET end_user_auth = NULL",
      "DELETE FROM stripe_settings",
      "DELETE FROM webhook_endpoints",
    ].map((text) => env.DB.prepare(text)),
  );
  const clock = new Clock();
  const app = await makeApp();
  const client = (settings: Bindings = {}) => makeClient(clock, settings);
  const admin = async (method: string, path: string, body: object, settings: Bindings = {}) => {
    const answer = await client(settings)(method, `/api/v1/admin/apps/${app.appId}/${path}`, {
      key: env.ADMIN_TOKEN,
      body,
    });
    expect(answer.status, JSON.stringify(answer.body)).toBe(200);
    return answer.body;
  };
  await admin("PUT", "end-user-auth", { mode: "live", setting: END_USER_SETTING });
  await admin("PUT", "stripe", { mode: "live", setting: { signingSecrets: [WHSEC, `${WHSEC}2`] } });
  const { webhookId } = await admin("POST", "webhooks", { mode: "live", url: "https://receiver.example.com/" });
  await admin("POST", `webhooks/${webhookId}/rotate`, {});
  /** Every stored text that holds a secret. */
  const stored = async (): Promise<string[]> => {
    const { results } = await env.DB.prepare(
      `SELECT end_user_auth AS text FROM environments WHERE id = ?1 UNION ALL
       SELECT setting FROM stripe_settings WHERE environment_id = ?1 UNION ALL
       SELECT secret FROM webhook_endpoints WHERE environment_id = ?1 UNION ALL
       SELECT previous_secret FROM webhook_endpoints WHERE environment_id = ?1`,
    )
      .bind(app.environments.live.id)
      .all<{ text: string }>();
    return results.map(({ text }) => text);
  };
  const run = (settings: Bindings = ROTATED, textsMax?: number) =>
    runPart(
      (ctx) => resealSecrets(ctx, textsMax),
      systemCtx(bound(settings), { isolate: {}, now: clock.now, newId: randomId }),
    );
  const list = async (settings: Bindings) =>
    client(settings)("GET", "/api/v1/credits?userId=u", {
      key: app.keys.pk_live,
      headers: { "x-user-token": await userToken("u", clock) },
    });
  return { app, clock, admin, stored, run, list };
}

/** The prefixes of the sealed parts, one for each secret that sealed. A random part may itself end in `v1` before a dot. */
const marksOf = (texts: readonly string[]) =>
  new Set(texts.flatMap((text) => text.match(/(?<![\w-])v1\.[\w-]{8}/g) ?? []));

it("after SETTINGS_SECRET was rotated, the cron seals every stored secret again, so that all open without the previous secret", async () => {
  const { app, clock, stored, list } = await world();
  const info = vi.spyOn(console, "info").mockReturnValue();
  const before = await stored();
  expect(before).toHaveLength(4);
  expectError(await list({ SETTINGS_SECRET: NEXT }), "secrets_unavailable");
  await scheduled(bound(ROTATED), { isolate: {}, now: clock.now, newId: randomId });
  const after = await stored();
  const [[old], [now]] = [[...marksOf(before)], [...marksOf(after)]];
  expect([marksOf(before).size, marksOf(after).size, old === now]).toEqual([1, 1, false]);
  const line = { level: "info", code: "secrets_sealed_anew", database: home(), count: 4, isDone: true };
  expect(info.mock.calls.map(([text]) => JSON.parse(String(text)))).toEqual([line]);
  expect((await list({ SETTINGS_SECRET: NEXT })).status).toBe(200);
  // The fields beside a secret are unchanged.
  const setting = JSON.parse(after[1] ?? "");
  expect(setting).toMatchObject({ currency: "usd", prices: [], secrets: [{ hint: expect.any(String) }, {}] });
  expect(after[0]).toBe(await storedSettingOf({ appId: app.appId, mode: "live" }, END_USER_SETTING, NEXT));
});

it("after SETTINGS_SECRET was rotated, the cron works in pages, does nothing once all secrets are sealed anew, and sends no query without a previous secret", async () => {
  const { stored, run } = await world();
  vi.spyOn(console, "info").mockReturnValue();
  for (let left = 4; left > 0; left--) {
    expect(marksOf(await stored()).size).toBe(left === 4 ? 1 : 2);
    expect(await run(ROTATED, 1)).toEqual([]);
  }
  const resealed = await stored();
  expect(marksOf(resealed).size).toBe(1);
  expect(await run()).toEqual([]);
  expect(await stored()).toEqual(resealed);
  const { d1, spent } = countingD1(env.DB);
  await run({ DB: d1 });
  // A previous secret that equals the current one counts as none.
  await run({ DB: d1, SETTINGS_SECRET_PREVIOUS: env.SETTINGS_SECRET });
  expect(spent().roundTrips).toBe(0);
});

it("after SETTINGS_SECRET was rotated, the cron skips secrets that change meanwhile or cannot be opened, and seals the rest", async () => {
  const { app, admin, stored, run } = await world();
  vi.spyOn(console, "info").mockReturnValue();
  const other = { ...END_USER_SETTING, secret: "another-secret-of-32-bytes-or-more!" };
  let trips = 0;
  const d1 = hookedD1(env.DB, async () => {
    if (++trips === 2) await admin("PUT", "end-user-auth", { mode: "live", setting: other }, ROTATED);
  });
  // A text that was sealed for another environment cannot be opened here.
  const strange = await storedSettingOf({ appId: "app_other", mode: "live" }, END_USER_SETTING);
  await env.DB.prepare("UPDATE environments SET end_user_auth = ? WHERE id = ?")
    .bind(strange, app.environments.test.id)
    .run();
  const failures = await run({ ...ROTATED, DB: d1 });
  expect(failures).toMatchObject([{ code: "secrets_unavailable" }]);
  const texts = await stored();
  expect(marksOf(texts).size).toBe(1);
  expect(texts[0]).toBe(await storedSettingOf({ appId: app.appId, mode: "live" }, other, NEXT));
});

it.each(FAULTS.flatMap((fault) => [1, 2].map((at) => ({ fault, at }))))(
  "after SETTINGS_SECRET was rotated, the cron seals every secret, in this run or the next, even if a trip fails: $fault at trip $at",
  async (plan) => {
    const { stored, run, list } = await world();
    vi.spyOn(console, "info").mockReturnValue();
    vi.spyOn(scheduler, "wait").mockResolvedValue();
    const faulty = faultyD1(env.DB);
    faulty.plan(plan);
    await run({ ...ROTATED, DB: faulty.d1 });
    faulty.plan(null);
    expect(await run()).toEqual([]);
    expect(marksOf(await stored()).size).toBe(1);
    expect((await list({ SETTINGS_SECRET: NEXT })).status).toBe(200);
  },
);

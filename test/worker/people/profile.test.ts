import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { readProfile } from "../../../src/people/profile.ts";
import { device, exportOf, identify, send } from "../../support/people.ts";
import { Clock, makeApp, makeClient, makeCtx, makeOpenAmountPack, startIsolate } from "../../support/world.ts";

/** Ana claims four devices: one verified, one plain, two that became users. Two of her devices claim one more each. */
async function ana() {
  const clock = new Clock();
  const call = makeClient(clock);
  const app = await makeApp();
  await send(call, app.keys.pk_live, [
    identify("ana", device(1)),
    identify("ana", device(2)),
    identify("ana", device(3)),
  ]);
  await send(call, app.keys.sk_live, [identify("ana", device(6))]);
  await send(call, app.keys.pk_live, [identify(device(2)), identify(device(6))]);
  const packId = await makeOpenAmountPack(app.appId, "Wallet", "count");
  for (const userId of [device(2), device(3)]) {
    const body = { userId, packId, quantity: 1 };
    expect((await call("POST", "/api/v1/credits/grant", { key: app.keys.sk_live, body })).status).toBe(200);
  }
  await send(call, app.keys.pk_live, [
    { event: "$create_alias", distinct_id: device(6), properties: { alias: device(4) } },
    { event: "$create_alias", distinct_id: device(3), properties: { alias: device(5) } },
  ]);
  return { clock, call, app };
}

it("a profile shows the ids that an id claims, which claims do not count and why, and the claims of those that count", async () => {
  const { app, clock, call } = await ana();
  const who = await readProfile(makeCtx(app.environments.live, clock), "ana");
  expect(
    who.claims.map((claim) => [claim.distinctId, claim.claimedBy, claim.isVerified, claim.counts, claim.flaws]),
  ).toEqual([
    [device(6), "ana", true, true, ["identified"]],
    [device(1), "ana", false, true, []],
    [device(2), "ana", false, false, ["identified", "account"]],
    [device(3), "ana", false, false, ["account"]],
    [device(4), device(6), false, true, []],
  ]);
  expect(who.claimed).toBeNull();
  expect(who.person?.personId).toBe((await exportOf(call, app, "ana")).person?.personId);
  expect(who.events.every((event) => event.distinctId !== device(2))).toBe(true);
});

it("a profile shows which id claims it, and none of the claimer's data", async () => {
  const { app, clock } = await ana();
  const ctx = makeCtx(app.environments.live, clock);
  expect((await readProfile(ctx, device(1))).claimed).toMatchObject({ claimedBy: "ana", counts: true });
  const apart = await readProfile(ctx, device(3));
  expect(apart.claimed).toMatchObject({ claimedBy: "ana", counts: false, flaws: ["account"] });
  expect(apart.claims.map((claim) => claim.distinctId)).toEqual([device(5)]);
  expect(apart.events.map((event) => event.distinctId)).toEqual([device(3)]);
  expect((await readProfile(ctx, "nobody")).person).toBeNull();
});

it("the page of a person links every id, and gives all reasons of a claim in words", async () => {
  const { app, clock } = await ana();
  const site = startIsolate(clock);
  const limiter: RateLimit = { limit: async () => ({ success: true }) };
  const ask = (path: string, init: RequestInit = {}) =>
    site.request(`https://purser.example${path}`, init, { ...env, ADMIN_TRIES: limiter });
  const body = new URLSearchParams({ name: "Ana", token: env.ADMIN_TOKEN, next: "/admin/apps" });
  const signedIn = await ask("/admin/sign-in", { method: "POST", body });
  const cookie = (signedIn.headers.get("set-cookie") ?? "").split(";")[0] ?? "";
  const pageOf = async (id: string) => {
    const path = `/admin/apps/${app.appId}/live/people?distinctId=${id}`;
    const answer = await ask(path, { headers: { cookie } });
    expect(answer.status).toBe(200);
    return answer.text();
  };
  const page = await pageOf("ana");
  for (const n of [1, 2, 3, 4, 6]) expect(page).toContain(`people?distinctId=${device(n)}"`);
  expect(page).toContain("it is an identified user, it has credits");
  expect(page).toContain("verified");
  const claimed = await pageOf(device(3));
  expect(claimed).toContain("This id is linked to");
  expect(claimed).toContain('people?distinctId=ana"');
});

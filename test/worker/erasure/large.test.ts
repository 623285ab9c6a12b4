import { env } from "cloudflare:workers";
import { afterAll, expect, it } from "vitest";
import { scheduled } from "../../../src/cron.ts";
import { continueErasure } from "../../../src/erasure/erase-running.ts";
import { erasePerson } from "../../../src/erasure/start-erasure.ts";
import { randomId } from "../../../src/lib/ids.ts";
import { browse } from "../../support/browse.ts";
import { type ErasureWorld, erasureWorld, findInDatabase } from "../../support/erasure.ts";
import { expectLedgerInvariants } from "../../support/invariants.ts";
import { expectError } from "../../support/rejections.ts";
import { seedAnalytics, seedBalances, seedConsents, seedEntries, seedUsage } from "../../support/seed-rows.ts";
import { bound, makeClient, makeCtx } from "../../support/world.ts";
import { wrappedD1 } from "../../support/wrapped-d1.ts";

afterAll(expectLedgerInvariants);

const ANA = "Zq7-large";
const IDS = 10_400;
/** The queries that D1 allows in an invocation. */
const QUERIES_MAX = 1_000;

/** Counts queries as D1 does: each statement of a batch is one. */
function queryCounter() {
  let queries = 0;
  const d1 = wrappedD1(env.DB, async (send, statements) => {
    queries += statements.length;
    return send(statements);
  });
  const takeCount = () => {
    const count = queries;
    queries = 0;
    return count;
  };
  return { d1, takeCount };
}

/** Ids that Ana claims, each with properties, some with events and credits of their own. */
async function fillIds({ app }: ErasureWorld, count: number): Promise<void> {
  const { live } = app.environments;
  const ids = `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ${count})`;
  await env.DB.batch(
    [
      `INSERT INTO distinct_ids (environment_id, distinct_id, is_device_form, is_sender, first_seen_at_ms, last_seen_at_ms)
       VALUES (${live.id}, '${ANA}', 0, 1, 1, 1)`,
      `INSERT INTO distinct_ids (environment_id, distinct_id, is_device_form, first_seen_at_ms, last_seen_at_ms, claimed_by,
         claimed_via, claimed_at_ms, claim_is_verified, claim_version)
       ${ids} SELECT ${live.id}, 'Zq7-large-' || i, 0, 1, 1, '${ANA}', 'alias', 1, 1, 1 FROM n`,
      `INSERT INTO id_properties (environment_id, distinct_id, properties, version)
       ${ids} SELECT ${live.id}, 'Zq7-large-' || i, '{"of":"Zq7-large"}', 1 FROM n`,
    ].map((sql) => env.DB.prepare(sql)),
  );
  for (const n of [1, Math.ceil(count / 2), count]) {
    await seedAnalytics(live, `Zq7-large-${n}`, ['{"page":"Zq7-large"}', '{"page":"Zq7-large"}']);
    await seedBalances(live, `Zq7-large-${n}`, 2);
  }
}

const tombstonesIn = ({ app }: ErasureWorld) =>
  env.DB.prepare("SELECT count(*) AS n FROM tombstones WHERE environment_id = ?")
    .bind(app.environments.live.id)
    .first<number>("n");

async function expectGone({ app, get }: ErasureWorld, erasureId: string, ids: number): Promise<void> {
  expect((await get(`erasures/${erasureId}`)).body).toMatchObject({ status: "completed", distinctIdCount: ids });
  expect(await findInDatabase([ANA], app.environments.live.id)).toEqual([]);
  const left = await env.DB.prepare(
    `SELECT (SELECT count(*) FROM tombstones WHERE erasure_id = ?1) AS tombstones,
       (SELECT count(*) FROM erasure_ids WHERE erasure_id = ?1) AS ids`,
  )
    .bind(erasureId)
    .first();
  expect(left).toEqual({ tombstones: ids, ids: 0 });
}

it("an erasure of more than 10,000 ids completes by calls that each stay within D1's query limit", {
  timeout: 120_000,
}, async () => {
  const world = await erasureWorld();
  const { app, clock, post } = world;
  await fillIds(world, IDS);
  const key = app.keys.sk_live;
  const { body: dry } = await post("erase-person", { distinctId: ANA, dryRun: true });
  expect(dry).toMatchObject({
    distinctIdCount: IDS + 1,
    erased: { analytics: 6, ids: IDS + 1, properties: IDS },
    pseudonymised: { balances: 6 },
    revoked: { cents: 6 },
  });
  expect(dry.distinctIds).toHaveLength(10_000);
  // The dry run shows only some of the ids, so the erasure is confirmed by their count.
  const partial = await post("erase-person", { distinctId: ANA, distinctIds: dry.distinctIds });
  expect([partial.status, partial.body.error.details.distinctIds.length]).toEqual([409, 10_000]);
  const fewer = await post("erase-person", { distinctId: ANA, distinctIdCount: IDS });
  expectError(fewer, "changed_meanwhile", "distinctIdCount");
  expect(fewer.body.error.details).toEqual({ distinctIdCount: IDS + 1 });
  expect(await tombstonesIn(world)).toBe(0);
  const counter = queryCounter();
  const call = makeClient(clock, { DB: counter.d1 });
  const counted = { distinctId: ANA, distinctIdCount: IDS + 1 };
  let calls = 0;
  let body = { erasureId: "", status: "running" };
  for (; body.status === "running" && calls < 40; calls++) {
    ({ body } = await call("POST", "/api/v1/erase-person", { key, body: counted }));
    expect(counter.takeCount()).toBeLessThan(QUERIES_MAX);
    // While it runs, writes for the person's ids are rejected.
    const late = await post("consent", { distinctId: ANA, purpose: "ads", decision: "denied" });
    expect([late.status, late.body.error.code]).toEqual([409, "person_erased"]);
  }
  expect(calls).toBeGreaterThan(1);
  const { distinctIds, ...counts } = dry;
  expect(body).toMatchObject(counts);
  await expectGone(world, body.erasureId, IDS + 1);
});

it("ids that an erasure found after its secret was replaced stay rejected without the new secret", {
  timeout: 60_000,
}, async () => {
  const world = await erasureWorld();
  const { app, clock } = world;
  await fillIds(world, IDS);
  const ctx = makeCtx(app.environments.live, clock);
  const input = { distinctId: ANA, dryRun: false, keepConsent: false };
  const { output } = await erasePerson(ctx, input, { pages: 0, rows: 1 });
  const erasureSecrets = { current: "another-erasure-secret-of-32-characters", previous: null };
  const replaced = { ...ctx, settings: { ...ctx.settings, erasureSecrets } };
  await continueErasure(replaced, output.erasureId ?? "", { pages: 1, rows: 1 });
  // The walk finds ids in the order of their text, so this is the last.
  const consent = { distinctId: `${ANA}-9999`, purpose: "ads", decision: "granted" };
  const answer = await makeClient(clock)("POST", "/api/v1/consent", { key: app.keys.sk_live, body: consent });
  expectError(answer, "erasure_unavailable");
});

it("the dashboard erases a person of more than 10,000 ids, unless the ids have changed", {
  timeout: 120_000,
}, async () => {
  const world = await erasureWorld();
  const { app, clock } = world;
  await fillIds(world, 10_001);
  const browser = browse(clock);
  await browser.signIn();
  const at = `/admin/apps/${app.appId}/live`;
  const shownIn = async (answer: Response) => /name="shown" value="([\w-]+)"/.exec(await answer.text())?.[1] ?? "";
  const form = async () => shownIn(await browser.get(`${at}/people/erase?distinctId=${ANA}`));
  const send = async (shown: string) =>
    browser.post(`${at}/people/erase`, { _form: await browser.formToken(), distinctId: ANA, shown, confirmation: ANA });
  const before = await form();
  await seedAnalytics(app.environments.live, "Zq7-large-more", ["{}"]);
  await env.DB.prepare(
    `UPDATE distinct_ids SET claimed_by = ?1, claimed_via = 'alias', claimed_at_ms = 1, claim_is_verified = 1, claim_version = 1
     WHERE environment_id = ?2 AND distinct_id = 'Zq7-large-more'`,
  )
    .bind(ANA, app.environments.live.id)
    .run();
  const refused = await send(before);
  expect(refused.status).toBe(409);
  const shown = await shownIn(refused);
  expect([shown.length, shown === before]).toEqual([43, false]);
  const answer = await send(shown);
  expect(answer.status).toBe(303);
  const erasureId = answer.headers.get("location")?.split("/").at(-1) ?? "";
  for (let runs = 0; runs < 60; runs++) {
    const { body } = await world.get(`erasures/${erasureId}`);
    if (body.status === "completed") break;
    await scheduled(bound(), { isolate: {}, now: clock.now, newId: randomId });
  }
  await expectGone(world, erasureId, 10_003);
});

it("one call erases rows of many pages within D1's query limit", { timeout: 120_000 }, async () => {
  const world = await erasureWorld();
  const { app, clock } = world;
  const { live } = app.environments;
  const page = (n: number) => `{"page":"Zq7-large ${n}"}`;
  await seedAnalytics(
    live,
    ANA,
    Array.from({ length: 4_000 }, (_, n) => page(n)),
  );
  await seedUsage(live, ANA, 4_000);
  const balanceIds = await seedBalances(live, ANA, 600);
  await seedEntries(live, ANA, balanceIds[0] ?? "", 2_000);
  await seedConsents(live, ANA, 2_500);
  const counter = queryCounter();
  const call = makeClient(clock, { DB: counter.d1 });
  const { body } = await call("POST", "/api/v1/erase-person", { key: app.keys.sk_live, body: { distinctId: ANA } });
  expect(counter.takeCount()).toBeLessThan(QUERIES_MAX);
  expect(body).toMatchObject({
    status: "completed",
    erased: { analytics: 4_000, consent: 2_500 },
    pseudonymised: { balances: 600, ledger: 2_600, metering: 4_000 },
  });
  await expectGone(world, body.erasureId, 1);
  const named = await env.DB.prepare(
    `SELECT count(*) AS events FROM usage_events WHERE environment_id = ? AND (request_hash <> '' OR event_id NOT GLOB '????????????????????????????????')`,
  )
    .bind(live.id)
    .first();
  expect(named).toEqual({ events: 0 });
});

import { env } from "cloudflare:workers";
import { afterAll, expect, it } from "vitest";
import { DAY_MS } from "../../../../src/lib/time.ts";
import { sumDaysOf } from "../../../support/cron.ts";
import { expectLedgerInvariants } from "../../../support/invariants.ts";
import { limitsWorld } from "../../../support/limits.ts";
import { makeEndpoint } from "../../../support/webhooks.ts";
import { makeAdminCtx } from "../../../support/world.ts";

afterAll(expectLedgerInvariants);

const SECRET = { ERASURE_SECRET: "erasure-secret-of-the-tests-00001" };

async function teamWorld() {
  const world = await limitsWorld({ limits: [{ per: "member", amount: 50 }], bindings: SECRET });
  const { app, grant, use, holdOk, callOk } = world;
  await makeEndpoint(app.environments.live);
  await grant("v");
  await use(1, { eventId: "e-ada", memberId: "MARK.ada", properties: { name: "MARK.property" } });
  await use(1, { eventId: "e-large", memberId: "MARK.ada", properties: { name: "MARK.large".repeat(200) } });
  await use(1, { eventId: "e-v", userId: "v", memberId: "MARK.ada" });
  await use(1, { eventId: "e-bob", memberId: "bob", properties: { kept: true } });
  const held = await holdOk(5, { memberId: "MARK.ada" });
  const limitId = (await callOk("GET", "/usage/limits?userId=u&memberId=bob")).limits[0].limitId;
  await callOk("PUT", `/usage/limits/${limitId}/amount`, { userId: "u", memberId: "MARK.ada", amount: 40 });
  const rows = async (sql: string) =>
    (await env.DB.prepare(sql).bind(app.environments.live.id).all<Record<string, unknown>>()).results;
  return { ...world, held, rows };
}

/** The texts of the rows of this environment that may name somebody. */
const textsOf = async ({ rows }: { rows: (sql: string) => Promise<Record<string, unknown>[]> }) =>
  JSON.stringify([
    await rows("SELECT * FROM members WHERE environment_id = ?"),
    await rows("SELECT * FROM usage_events WHERE environment_id = ?"),
    await rows("SELECT * FROM reservations WHERE environment_id = ?"),
    await rows("SELECT * FROM webhook_messages WHERE environment_id = ?"),
    await rows("SELECT * FROM rejections WHERE environment_id = ?"),
    await rows(
      "SELECT p.* FROM large_properties AS p JOIN accounts AS a ON a.id = p.account_id WHERE a.environment_id = ?",
    ),
  ]);

it("an erasure of a member gives each of its rows a pseudonym of its own, removes its texts and messages, and leaves the payers' books", async () => {
  const world = await teamWorld();
  const { callOk, event, commit, held, rows } = world;
  // The ids of the usage become hashes.
  const history = async () =>
    (await callOk("GET", "/credits/history?userId=u")).entries.map(
      ({ eventId: _, reservationId: __, ...entry }: Record<string, unknown>) => entry,
    );
  const before = await history();
  expect(await textsOf(world)).toContain("MARK.");
  expect(await callOk("POST", "/erase-person", { distinctId: "MARK.ada", reason: "request" })).toMatchObject({
    status: "completed",
  });
  expect(await textsOf(world)).not.toContain("MARK.");
  const members = await rows(
    "SELECT member_id, is_erased FROM members WHERE environment_id = ? ORDER BY is_erased, member_id",
  );
  expect(members.map(({ is_erased }) => is_erased)).toEqual([0, 2, 2]);
  expect(new Set(members.map(({ member_id }) => member_id)).size).toBe(3);
  expect(await history()).toEqual(before);
  expect((await callOk("GET", "/usage/events?eventId=e-bob")).properties).toEqual({ kept: true });
  const refused = await event(1, { memberId: "MARK.ada" });
  expect(refused).toMatchObject({
    status: 409,
    body: { error: { code: "person_erased", details: { field: "memberId" } } },
  });
  const texts = { properties: { name: "MARK.late" } };
  const late = { eventId: "late", memberId: "MARK.ada", onShortage: "partial", ...texts };
  const happened = await event(1, late);
  expect(happened.status).toBe(200);
  expect((await event(1, late)).headers.get("idempotent-replayed")).toBe("true");
  expect(await callOk("GET", "/usage/events?eventId=late")).toMatchObject({ memberId: null, properties: null });
  const again = await event(1, { eventId: "e-ada", memberId: "MARK.ada", properties: { name: "MARK.property" } });
  expect(again.headers.get("idempotent-replayed")).toBe("true");
  expect((await commit(held, 2, { eventId: "committed", ...texts })).status).toBe(200);
  expect(await callOk("GET", "/usage/events?eventId=committed")).toMatchObject({ memberId: null, properties: null });
  expect(await textsOf(world)).not.toContain("MARK.");
  const { downloadUrl } = await callOk("POST", "/export-person", { distinctId: "u" });
  const { pathname, search } = new URL(downloadUrl);
  expect(JSON.stringify((await world.call("GET", `${pathname}${search}`)).body)).not.toContain("MARK.");
  expect((await callOk("GET", "/credits/verify?userId=u")).isSound).toBe(true);
});

it("a verification finds the books of a payer sound after a hold of an erased member, which a limit counts, is charged", async () => {
  const { callOk, clock, holdOk, use } = await teamWorld();
  await holdOk(5, { memberId: "MARK.ada", onExpiry: "charge" });
  await callOk("POST", "/erase-person", { distinctId: "MARK.ada" });
  clock.advance(61_000);
  await use(1, { eventId: "settles the charge" });
  expect(await callOk("GET", "/credits/verify?userId=u")).toMatchObject({ isSound: true, flaws: [] });
});

it("a count of what an erasure changes has what the person used as a member, in the dry run and in the receipt, and no row twice", async () => {
  const { app, callOk } = await teamWorld();
  const rejection = "INSERT INTO rejections VALUES (?, 'u', 'MARK.ada', 'shortage', 'chat', '', '', 1, 1)";
  await env.DB.prepare(rejection).bind(app.environments.live.id).run();
  const counted = {
    erased: { messages: 3, refusals: 1 },
    pseudonymised: { metering: 3, reservations: 1, ledger: 0 },
  };
  const dry = await callOk("POST", "/erase-person", { distinctId: "MARK.ada", dryRun: true });
  expect(dry).toMatchObject(counted);
  const { erasureId, status, ...erased } = await callOk("POST", "/erase-person", { distinctId: "MARK.ada" });
  expect([status, erased]).toEqual(["completed", dry]);
  expect(await callOk("GET", `/erasures/${erasureId}`)).toMatchObject(counted);
});

it("a count of what an erasure changes has the usage of a payer who is the member too once", async () => {
  const { use, callOk } = await teamWorld();
  await use(1, { userId: "v", memberId: "v" });
  const dry = await callOk("POST", "/erase-person", { distinctId: "v", dryRun: true });
  expect(dry).toMatchObject({ pseudonymised: { metering: 2, reservations: 0 } });
});

it("an erasure of a payer cuts its members from its events, holds and counters, and the members stay users", async () => {
  const world = await teamWorld();
  const { callOk, rows } = world;
  expect(await callOk("POST", "/erase-person", { distinctId: "u", reason: "request" })).toMatchObject({
    status: "completed",
  });
  expect(await rows("SELECT member_id FROM members WHERE environment_id = ?")).toEqual([{ member_id: "MARK.ada" }]);
  const named = await rows("SELECT event_id FROM usage_events WHERE environment_id = ? AND member_number IS NOT NULL");
  expect(named).toEqual([{ event_id: "e-v" }]);
  expect(await rows("SELECT 1 FROM reservations WHERE environment_id = ? AND member_number IS NOT NULL")).toEqual([]);
  const counters = await rows("SELECT account_id FROM usage_counters WHERE environment_id = ? AND member_number > 0");
  expect(counters).toHaveLength(1);
  const users = await rows("SELECT user_id FROM accounts WHERE environment_id = ? AND is_erased = 0 ORDER BY user_id");
  expect(users.map(({ user_id }) => user_id)).toEqual(["MARK.ada", "bob", "v"]);
});

it("an erasure of a payer cuts its members from the day sums, also from those that are added up later, and keeps their amounts", async () => {
  const { app, use, callOk, admin, clock, rows } = await teamWorld();
  const sumUp = () => sumDaysOf(makeAdminCtx(clock), app.environments.live);
  await use(1, { eventId: "e-none" });
  await sumUp();
  await use(2, { eventId: "e-late", memberId: "bob" });
  const sums = () =>
    rows(`SELECT member_number > 0 AS named, sum(events) AS events, sum(count_low) AS low
            FROM usage_days WHERE environment_id = ? GROUP BY member_number > 0`);
  const before = await sums();
  expect(before.map(({ named, events }) => [named, events])).toEqual([
    [0, 1],
    [1, 4],
  ]);
  await callOk("POST", "/erase-person", { distinctId: "u", reason: "request" });
  await sumUp();
  expect((await sums()).map(({ named, events }) => [named, events])).toEqual([
    [0, 5],
    [1, 1],
  ]);
  const dayOf = (ms: number) => new Date(ms).toISOString().slice(0, 10);
  const span = `mode=live&from=${dayOf(clock.ms)}T00:00:00.000Z&to=${dayOf(clock.ms + DAY_MS)}T00:00:00.000Z`;
  const { body } = await admin("GET", `/usage?${span}&groupBy=member`);
  expect(body.totals).toMatchObject([{ userId: "v", memberId: "MARK.ada", events: 1, quantities: { count: 1 } }]);
  const byUser = await admin("GET", `/usage?${span}&groupBy=user`);
  expect(byUser.body.totals[0]).toMatchObject({ events: 5, quantities: { count: 6 } });
});

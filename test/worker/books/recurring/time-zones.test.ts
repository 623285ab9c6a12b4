import { env } from "cloudflare:workers";
import { afterAll, expect, it } from "vitest";
import { grantDuePeriods } from "../../../../src/books/recurring/grant-due.ts";
import { iso } from "../../../../src/lib/time.ts";
import { creditsWorld } from "../../../support/credits.ts";
import { runPart } from "../../../support/cron.ts";
import { expectLedgerInvariants } from "../../../support/invariants.ts";
import { RECURRING } from "../../../support/paths.ts";
import { expectError } from "../../../support/rejections.ts";
import { clockWorld } from "../../../support/test-clock.ts";
import { makeAdminCtx, makePack, newOpenAmountPack } from "../../../support/world.ts";

afterAll(expectLedgerInvariants);

async function zonedWorld(at: string) {
  const credits = await creditsWorld();
  const { app, call, clock } = credits;
  const key = app.keys.sk_live;
  await makePack(app.appId, "Free", [{ amountMinor: 100_000, unit: "tokens" }]);
  clock.ms = Date.parse(at);
  return {
    ...{ app, call, clock, key },
    make: (body: object) => call("POST", RECURRING, { key, body: { userId: "u", packId: "Free", ...body } }),
    recurring: async () => (await call("GET", `${RECURRING}?userId=u`, { key })).body.recurring,
    cron: () => runPart(grantDuePeriods, makeAdminCtx(clock)),
    stored: async () => {
      const { results } = await env.DB.prepare(
        `SELECT external_ref, granted_at_ms, expires_at_ms FROM credit_balances WHERE account_id IN (
           SELECT id FROM accounts WHERE environment_id = ?) ORDER BY grant_seq`,
      )
        .bind(app.environments.live.id)
        .all<{ external_ref: string; granted_at_ms: number; expires_at_ms: number }>();
      return results.map((row) => [row.external_ref, iso(row.granted_at_ms), iso(row.expires_at_ms)]);
    },
  };
}

it("a recurring grant with a time zone of months from midnight in Berlin grants on the first of each month there", async () => {
  const { make, clock, cron, stored, recurring } = await zonedWorld("2026-02-15T12:00:00.000Z");
  const startsAt = "2026-02-01T00:00:00+01:00";
  const made = await make({ recurringId: "rec_z", every: "month", timeZone: "europe/berlin", startsAt });
  expect(made.body).toMatchObject({ timeZone: "europe/berlin", period: { n: 1, to: "2026-02-28T23:00:00.000Z" } });
  for (const at of ["2026-02-28T22:59:59.999Z", "2026-02-28T23:00:00.000Z", "2026-03-31T22:00:00.000Z"]) {
    clock.ms = Date.parse(at);
    expect(await cron()).toEqual([]);
  }
  expect(await stored()).toEqual([
    ["recurring:rec_z:1", "2026-01-31T23:00:00.000Z", "2026-02-28T23:00:00.000Z"],
    ["recurring:rec_z:2", "2026-02-28T23:00:00.000Z", "2026-03-31T22:00:00.000Z"],
    ["recurring:rec_z:3", "2026-03-31T22:00:00.000Z", "2026-04-30T22:00:00.000Z"],
  ]);
  expect(await recurring()).toMatchObject([{ timeZone: "europe/berlin", nextAt: "2026-04-30T22:00:00.000Z" }]);
});

it.each([
  ["a day of 23 hours", "2026-03-29T00:00:00+01:00", "2026-03-29T22:00:00.000Z", "2026-03-29T23:00:00.000Z"],
  ["a day of 25 hours", "2026-10-25T00:00:00+02:00", "2026-10-25T23:00:00.000Z", "2026-10-25T22:00:00.000Z"],
])(
  "a pack's expiry in days is 24 hours each, for a period and for a grant, also on %s of the zone",
  async (_name, startsAt, to, expiresAt) => {
    const { app, call, key, make, stored } = await zonedWorld(startsAt);
    await newOpenAmountPack(app.appId, "Day pass", "tokens", { expiryDays: 1 }).insert.run();
    const ofPack = { packId: "Day pass", quantity: 5 };
    const daily = {
      ...ofPack,
      recurringId: "rec_z",
      every: "day",
      timeZone: "Europe/Berlin",
      startsAt,
      rolloverPeriods: null,
    };
    expect((await make(daily)).body).toMatchObject({ period: { n: 1, to } });
    const granted = await call("POST", "/api/v1/credits/grant", {
      key,
      body: { ...ofPack, userId: "u", externalRef: "o" },
    });
    expect(granted.body).toMatchObject({ expiresAt });
    const from = iso(Date.parse(startsAt));
    expect(await stored()).toEqual([
      ["recurring:rec_z:1", from, expiresAt],
      ["o", from, expiresAt],
    ]);
  },
);

it("a recurring grant with a time zone does not grant the period without length of the day that Apia skipped", async () => {
  const { make, clock, cron, stored } = await zonedWorld("2011-12-29T12:00:00.000Z");
  await make({ recurringId: "rec_z", every: "day", timeZone: "Pacific/Apia", startsAt: "2011-12-29T00:00:00-10:00" });
  clock.ms = Date.parse("2011-12-30T10:00:00.000Z");
  expect(await cron()).toEqual([]);
  expect(await stored()).toEqual([
    ["recurring:rec_z:1", "2011-12-29T10:00:00.000Z", "2011-12-30T10:00:00.000Z"],
    ["recurring:rec_z:3", "2011-12-30T10:00:00.000Z", "2011-12-31T10:00:00.000Z"],
  ]);
});

it.each([["+01:00"], ["PST"], ["Europe/Atlantis"], [""], [null]])(
  "a recurring grant with a time zone is rejected for %j, which is no name of a zone, and nothing is granted",
  async (timeZone) => {
    const { make, stored } = await zonedWorld("2026-01-15T12:00:00.000Z");
    expectError(await make({ every: "day", timeZone }), "invalid_request", "timeZone");
    expect(await stored()).toEqual([]);
  },
);

it("a recurring grant with a time zone is repeated with the same zone, also with UTC for none, and another zone is a conflict", async () => {
  const { make, stored } = await zonedWorld("2026-01-15T12:00:00.000Z");
  for (const [recurringId, timeZone] of [
    ["rec_none", undefined],
    ["rec_berlin", "Europe/Berlin"],
  ] as const) {
    const body = { recurringId, every: "day", startsAt: "2026-01-15T12:00:00Z" };
    await make({ ...body, timeZone });
    const again = await make({ ...body, timeZone: timeZone ?? "UTC" });
    expect(again.headers.get("idempotent-replayed")).toBe("true");
    expectError(await make({ ...body, timeZone: "Asia/Tokyo" }), "idempotency_conflict", "recurringId");
  }
  expect(await stored()).toHaveLength(2);
});

it("a recurring grant with a time zone warns if startsAt was written with another day than its zone's, also in a replay, and not otherwise", async () => {
  const { make } = await zonedWorld("2026-01-15T12:00:00.000Z");
  const warningOf = async (startsAt: string | undefined, timeZone: string | undefined, recurringId: string) =>
    (await make({ recurringId, every: "month", startsAt, timeZone })).headers.get("purser-warning");
  for (const [startsAt, timeZone] of [
    ["2026-02-01T00:00:00Z", "America/Los_Angeles"],
    ["2026-02-01T00:00:00+01:00", undefined],
    ["2026-01-31T23:30:00Z", "Europe/Berlin"],
  ] as const) {
    for (let times = 0; times < 2; times++)
      expect(await warningOf(startsAt, timeZone, `rec_${startsAt}`)).toMatch(/^The date of startsAt is another day/);
  }
  for (const [startsAt, timeZone] of [
    ["2026-02-01T00:00:00+01:00", "Europe/Berlin"],
    ["2026-02-01T12:00:00Z", "America/Los_Angeles"],
    ["2026-02-01T00:00:00Z", undefined],
    [undefined, "Pacific/Kiritimati"],
  ] as const) {
    expect(await warningOf(startsAt, timeZone, `rec_${startsAt}_${timeZone}`)).toBeNull();
  }
});

it("a recurring grant with a time zone whose zone the runtime does not know goes on at its last known offset, and fails no write", async () => {
  const { make, app, call, key, clock, cron, stored, recurring } = await zonedWorld("2026-03-20T12:00:00.000Z");
  // In summer time from 29 March on.
  const body = { recurringId: "rec_z", every: "month", startsAt: "2026-03-10T00:00:00+01:00" };
  await make({ ...body, timeZone: "Europe/Berlin" });
  const frozen = await env.DB.prepare(
    "SELECT sql FROM sqlite_master WHERE name = 'recurring_grants_frozen'",
  ).first<string>("sql");
  // In one transaction, so that no other test misses the trigger.
  await env.DB.batch([
    env.DB.prepare("DROP TRIGGER recurring_grants_frozen"),
    env.DB.prepare("UPDATE recurring_grants SET time_zone = 'Europe/Atlantis' WHERE environment_id = ?").bind(
      app.environments.live.id,
    ),
    env.DB.prepare(frozen ?? ""),
  ]);
  clock.ms = Date.parse("2026-04-09T22:00:00.000Z");
  expect(await cron()).toEqual([]);
  clock.ms = Date.parse("2026-05-09T22:00:00.000Z");
  const event = { eventId: "e", userId: "u", event: "chat", quantities: { tokens: 1, count: 0 } };
  expect((await call("POST", "/api/v1/usage/events", { key, body: event })).status).toBe(200);
  expect((await stored()).map(([ref, from]) => [ref, from])).toEqual([
    ["recurring:rec_z:1", "2026-03-09T23:00:00.000Z"],
    ["recurring:rec_z:2", "2026-04-09T22:00:00.000Z"],
    ["recurring:rec_z:3", "2026-05-09T22:00:00.000Z"],
  ]);
  expect(await recurring()).toMatchObject([{ timeZone: "Europe/Atlantis", nextAt: "2026-06-09T22:00:00.000Z" }]);
});

it("a recurring grant with a time zone grants each day at its own local time under a test clock that moves across changes of clocks", async () => {
  const world = await clockWorld();
  await world.move(1);
  const body = { userId: "u", packId: world.packId, every: "day", timeZone: "Europe/Berlin" };
  const startsAt = "2026-03-27T02:30:00+01:00";
  await world.callOk("POST", "/credits/recurring", { ...body, startsAt, recurringId: "rec_clock" });
  await world.move(Date.parse("2026-04-01T12:00:00Z") - world.clock.ms);
  const entries = await world.ledger();
  expect(entries.map(({ occurredAt }: { occurredAt: string }) => occurredAt)).toEqual([
    ...["2026-03-27T01:30:00.000Z", "2026-03-28T01:30:00.000Z", "2026-03-29T01:00:00.000Z"],
    ...["2026-03-30T00:30:00.000Z", "2026-03-31T00:30:00.000Z", "2026-04-01T00:30:00.000Z"],
  ]);
});

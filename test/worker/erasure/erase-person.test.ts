import { afterAll, expect, it } from "vitest";
import { DAY_MS } from "../../../src/lib/time.ts";
import { columnClasses } from "../../support/column-classes.ts";
import { ANA, CRM, DEVICE, erasureWorld, fillPerson, findInDatabase, TRACES } from "../../support/erasure.ts";
import { expectLedgerInvariants } from "../../support/invariants.ts";
import { expectError } from "../../support/rejections.ts";

afterAll(expectLedgerInvariants);

/** Columns that are classed as names or texts, but hold no trace of a person: hashes, random ids, and the erasure's own. */
const WITHOUT_TRACE = [
  /\.request_hash$/,
  /^usage_events\.large_properties_bytes$/,
  /^analytics_events\.uuid$/,
  /^erasure_(ids|names)\./,
];

it("an erasure leaves nothing of a person in any column, whatever data Purser has about people", async () => {
  const world = await erasureWorld();
  const { app, post, get } = world;
  await fillPerson(world);
  const { id } = app.environments.live;
  // Every column that can hold data about a person is filled here, so that no erasure forgets it.
  const expected = Object.entries(columnClasses).flatMap(([table, { names = [], text = [] }]) =>
    [...names, ...text].map((column) => `${table}.${column}`),
  );
  const columns = expected.filter((column) => !WITHOUT_TRACE.some((form) => form.test(column)));
  expect(await findInDatabase(TRACES, id)).toEqual(columns.toSorted());

  const { body: dry } = await post("erase-person", { distinctId: ANA, dryRun: true });
  const answer = await post("erase-person", { distinctId: ANA, reason: "request" });
  const { erasureId, status, ...same } = answer.body;
  expect([answer.status, status]).toEqual([200, "completed"]);
  expect(same).toEqual(dry);
  expect(same.distinctIds).toEqual([ANA, DEVICE, CRM]);
  expect(await findInDatabase(TRACES, id)).toEqual([]);

  const { distinctIds, ...counts } = same;
  const receipt = await get(`erasures/${erasureId}`);
  expect(receipt.body).toMatchObject({
    erasureId,
    status: "completed",
    ...counts,
    reason: "request",
    liftedAt: null,
  });
  const again = await post("erase-person", { distinctId: distinctIds.at(-1) });
  expect(again.headers.get("idempotent-replayed")).toBe("true");
  expect(again.body).toEqual({ erasureId, status: "completed", ...counts });
});

it("an erasure tells in the receipt until when D1 can restore what it erased, by the plan that is set", async () => {
  for (const [D1_RECOVERY_DAYS, days] of [
    ["", 30],
    ["30", 30],
    ["7", 7],
    ["14", 30],
  ] as const) {
    const { post, get } = await erasureWorld({ D1_RECOVERY_DAYS });
    const { erasureId } = (await post("erase-person", { distinctId: "nobody" })).body;
    const { completedAt, recoverableUntil } = (await get(`erasures/${erasureId}`)).body;
    expect(Date.parse(recoverableUntil) - Date.parse(completedAt)).toBe(days * DAY_MS);
  }
});

it("an erasure erases nothing if the person has other ids than those given, and returns them", async () => {
  const world = await erasureWorld();
  const { app, post } = world;
  await fillPerson(world);
  const { id } = app.environments.live;
  const before = await findInDatabase(TRACES, id);
  for (const distinctIds of [[ANA], [ANA, DEVICE], [ANA, DEVICE, CRM, "bo"], [ANA, DEVICE, "bo"]]) {
    const answer = await post("erase-person", { distinctId: ANA, distinctIds });
    expectError(answer, "changed_meanwhile", "distinctIds");
    expect(answer.body.error.details).toEqual({ distinctIds: [ANA, DEVICE, CRM] });
  }
  expectError(await post("erase-person", { distinctId: ANA, distinctIds: [] }), "invalid_request");
  expect(await findInDatabase(TRACES, id)).toEqual(before);
  for (const distinctIdCount of [2, 4]) {
    const answer = await post("erase-person", { distinctId: ANA, distinctIdCount });
    expectError(answer, "changed_meanwhile", "distinctIdCount");
    expect(answer.body.error.details).toEqual({ distinctIdCount: 3 });
  }
  for (const distinctIdCount of [0, 1.5, "3", null]) {
    const answer = await post("erase-person", { distinctId: ANA, distinctIdCount });
    expectError(answer, "invalid_request", "distinctIdCount");
  }
  const both = { distinctId: ANA, distinctIds: [ANA, DEVICE, CRM], distinctIdCount: 3 };
  expectError(await post("erase-person", both), "invalid_request", "distinctIdCount");
  const byCount = await post("erase-person", { distinctId: ANA, distinctIdCount: 3, dryRun: true });
  expect([byCount.status, byCount.body.distinctIdCount]).toEqual([200, 3]);
  const { body } = await post("erase-person", { distinctId: ANA, distinctIds: [CRM, ANA, DEVICE, ANA] });
  expect(body.status).toBe("completed");
  expect(await findInDatabase(TRACES, id)).toEqual([]);
  // An id without data is erased at once, and leaves a tombstone.
  const nobody = await post("erase-person", { distinctId: "nobody" });
  expect(nobody.body).toMatchObject({
    status: "completed",
    distinctIds: ["nobody"],
    erased: { analytics: 0, ids: 0 },
  });
  const consent = { distinctId: "nobody", purpose: "ads", decision: "denied" };
  expectError(await post("consent", consent), "person_erased");
});

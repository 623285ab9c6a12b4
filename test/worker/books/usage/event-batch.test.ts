import { afterAll, expect, it } from "vitest";
import { expectLedgerInvariants } from "../../../support/invariants.ts";
import { EVENTS } from "../../../support/paths.ts";
import { expectError } from "../../../support/rejections.ts";
import { makeSpender, wallet } from "../../../support/spender.ts";

afterAll(expectLedgerInvariants);

const BATCH = `${EVENTS}/batch`;
const asBatch = { "content-type": "application/cloudevents-batch+json" };
const asOne = { "content-type": "application/cloudevents+json" };

it("accepts a list on its own path and on the path of single events, and one is a replay of the other", async () => {
  const { post, userId, remaining } = await makeSpender([wallet]);
  const event = (eventId: string) => ({ eventId, userId, event: "tick", quantities: { cents: 1 } });
  const list = [event("a"), event("b"), { ...event("c"), user_id: "x" }];
  const answers = [await post(BATCH, list), await post(EVENTS, list), await post(BATCH, list)];
  for (const { status, body } of answers) {
    expect(status).toBe(200);
    expect(body.results).toMatchObject([
      { eventId: "a", debits: [{ amount: 1, remaining: 9 }] },
      { eventId: "b", debits: [{ amount: 1, remaining: 8 }] },
      { eventId: "c", error: { code: "invalid_request", param: "user_id" } },
    ]);
  }
  expect(await remaining()).toEqual([8]);
  expect((await post(BATCH, [])).body).toEqual({ results: [] });
});

it("accepts CloudEvents on the path of lists, and names the right content type if it was that of a single event", async () => {
  const { post, userId, remaining } = await makeSpender([wallet]);
  const data = { quantities: { cents: 1 } };
  const cloud = { specversion: "1.0", id: "e1", source: "/meter", type: "tick", subject: userId, data, extension: "x" };
  expect((await post(BATCH, [cloud], asBatch)).body.results).toMatchObject([
    { eventId: "/meter#e1", debits: [{ amount: 1 }] },
  ]);
  const mistaken = await post(BATCH, [cloud], asOne);
  expectError(mistaken, "invalid_request", "content-type");
  expect(mistaken.body.error.message).toContain("`application/cloudevents-batch+json`");
  expect(await remaining()).toEqual([9]);
});

it("accepts only a list on the path of lists", async () => {
  const { post, userId, remaining } = await makeSpender([wallet]);
  const event = { eventId: "a", userId, event: "tick", quantities: { cents: 1 } };
  for (const body of [event, { events: [event] }, "text", null, 5]) {
    const answer = await post(BATCH, body === "text" ? '"text"' : body);
    expectError(answer, "invalid_request", "body");
    expect(answer.body.error.message).toContain("put the events into brackets");
  }
  const many = Array.from({ length: 101 }, (_, index) => ({ ...event, eventId: `e${index}` }));
  expectError(await post(BATCH, many), "invalid_request", "body");
  expect(await remaining()).toEqual([10]);
});

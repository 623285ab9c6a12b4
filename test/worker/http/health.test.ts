import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { countingD1 } from "../../support/counting-d1.ts";
import { expectError } from "../../support/rejections.ts";
import { Clock, makeClient } from "../../support/world.ts";
import { wrappedD1 } from "../../support/wrapped-d1.ts";

it("health asks D1 at most once a second, even for concurrent requests, and repeats its last result in between (W15)", async () => {
  const clock = new Clock();
  let isDown = false;
  let trips = 0;
  const d1 = wrappedD1(env.DB, async (send, statements) => {
    trips++;
    if (isDown) throw new Error("D1_ERROR: The database is gone.");
    return send(statements);
  });
  // Health asks `DB`, whichever database this file uses.
  const call = makeClient(clock, { DB: d1, SPARE: d1 });
  const health = () => call("GET", "/health");
  const answers = await Promise.all(Array.from({ length: 50 }, health));
  expect([new Set(answers.map(({ status }) => status)), trips]).toEqual([new Set([200]), 1]);
  isDown = true;
  clock.advance(999);
  expect([(await health()).body, trips]).toEqual([{ status: "ok" }, 1]);
  clock.advance(1);
  expectError(await health(), "temporarily_unavailable");
  isDown = false;
  expectError(await health(), "temporarily_unavailable");
  expect(trips).toBe(2);
  clock.advance(1_000);
  expect([(await health()).status, trips]).toEqual([200, 3]);
});

it("health asks D1 once in each isolate", async () => {
  const { d1, spent } = countingD1(env.DB);
  const clock = new Clock();
  for (let isolate = 0; isolate < 3; isolate++) {
    expect((await makeClient(clock, { DB: d1, SPARE: d1 })("GET", "/health")).status).toBe(200);
  }
  expect(spent().roundTrips).toBe(3);
});

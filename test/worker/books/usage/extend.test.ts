import { env } from "cloudflare:workers";
import { afterAll, expect, it } from "vitest";
import { commitInput } from "../../../../src/api/reservations/commit-reservation.ts";
import { commitReservation } from "../../../../src/books/usage/commit.ts";
import { extendReservation } from "../../../../src/books/usage/extend.ts";
import { releaseReservation } from "../../../../src/books/usage/release.ts";
import { hookedD1 } from "../../../support/hooked-d1.ts";
import { expectLedgerInvariants } from "../../../support/invariants.ts";
import { expectError } from "../../../support/rejections.ts";
import { cents, makeSpender, runHoldsPart, type Spender, wallet } from "../../../support/spender.ts";
import { makeCtx } from "../../../support/world.ts";

afterAll(expectLedgerInvariants);

const RESERVATION = "/api/v1/usage/reservations/res_1";
const DAY_SECONDS = 86_400;

/** A user with a reservation of 4 of 10 cents, for 60 seconds. */
async function holder(): Promise<Spender> {
  const spender = await makeSpender([wallet]);
  await spender.reserve({ reservationId: "res_1", expiresInSeconds: 60, ...cents(4) });
  return spender;
}
const extend = ({ post }: Pick<Spender, "post">, expiresInSeconds: unknown) =>
  post(`${RESERVATION}/extend`, { expiresInSeconds });
const read = async ({ get }: Spender) => (await get(RESERVATION)).body;

it("an extension moves the end to the given seconds from now, keeps the holds, and returns the reservation", async () => {
  const spender = await holder();
  const { clock } = spender;
  clock.advance(50_000);
  const { status, body } = await extend(spender, 60);
  expect(status).toBe(200);
  expect(body).toMatchObject({
    status: "open",
    expiresAt: new Date(clock.ms + 60_000).toISOString(),
    settledAt: null,
  });
  expect(body).toEqual(await read(spender));
  clock.advance(59_999);
  await runHoldsPart(spender);
  expect(await spender.remaining()).toEqual([6]);
  clock.advance(1);
  await runHoldsPart(spender);
  expect(await spender.remaining()).toEqual([10]);
});

it("an extension never moves the end to an earlier time, nor past a day after the reservation was made", async () => {
  const spender = await holder();
  const { clock } = spender;
  expectError(await extend(spender, 59), "invalid_request", "expiresInSeconds");
  expect((await extend(spender, 60)).status).toBe(200);
  expect((await extend(spender, DAY_SECONDS)).status).toBe(200);
  clock.advance(1);
  const before = await read(spender);
  expectError(await extend(spender, DAY_SECONDS), "invalid_request", "expiresInSeconds");
  for (const seconds of [0, DAY_SECONDS + 1, 1.5, "60", null, undefined]) {
    expectError(await extend(spender, seconds), "invalid_request", "expiresInSeconds");
  }
  expect(await read(spender)).toEqual(before);
});

it("an extension of a reservation that is committed, released or due is reservation_closed, and a due hold returns", async () => {
  const [committed, released, due] = [await holder(), await holder(), await holder()];
  await committed.post(`${RESERVATION}/commit`, { eventId: "e1", ...cents(1) });
  await released.post(`${RESERVATION}/release`);
  due.clock.advance(60_000);
  for (const spender of [committed, released, due]) {
    for (const at of [spender, spender.inNewIsolate()]) {
      expectError(await extend(at, 600), "reservation_closed", "reservationId");
    }
  }
  expect(await due.remaining()).toEqual([10]);
  expect(await read(due)).toMatchObject({ status: "expired" });
  expectError(
    await due.post("/api/v1/usage/reservations/res_2/extend", { expiresInSeconds: 60 }),
    "reservation_not_found",
    "reservationId",
  );
});

it("an extension does not change the first response of a repeated call to reserve", async () => {
  const spender = await holder();
  const body = { reservationId: "res_1", expiresInSeconds: 60, ...cents(4) };
  const first = (await spender.reserve(body)).body;
  await extend(spender, 600);
  const again = await spender.inNewIsolate().reserve(body);
  expect(again.headers.get("idempotent-replayed")).toBe("true");
  expect(again.body).toEqual(first);
});

it("an extension moves the end to the latest of thirty times if thirty race", async () => {
  const spender = await holder();
  const answers = await Promise.all(
    Array.from({ length: 30 }, (_, index) => extend(index % 2 === 0 ? spender : spender.inNewIsolate(), 70 + index)),
  );
  const longest = new Date(spender.clock.ms + 99_000).toISOString();
  expect((await read(spender)).expiresAt).toBe(longest);
  for (const answer of answers) {
    if (answer.status !== 200) expectError(answer, "invalid_request", "expiresInSeconds");
  }
});

const ctxOf = ({ app, clock }: Spender, d1: D1Database = env.DB) => makeCtx(app.environments.live, clock, d1);
const settlements = {
  commit: async (spender: Spender, d1?: D1Database) => {
    await commitReservation(ctxOf(spender, d1), "res_1", commitInput.parse({ eventId: "e1", ...cents(4) }));
  },
  release: async (spender: Spender, d1?: D1Database) => {
    await releaseReservation(ctxOf(spender, d1), "res_1");
  },
  cron: runHoldsPart,
};
/** Runs `work` between a verb's read and its write. */
const between = (work: () => Promise<unknown>) =>
  hookedD1(env.DB, async (trip) => {
    if (trip === 2) await work();
  });

it.each(["commit", "release"] as const)(
  "an extension that races with a settlement fails if a %s comes between its read and its write",
  async (name) => {
    const spender = await holder();
    const d1 = between(() => settlements[name](spender));
    await expect(extendReservation(ctxOf(spender, d1), "res_1", { expiresInSeconds: 600 })).rejects.toMatchObject({
      code: "reservation_closed",
    });
    expect(await read(spender)).toMatchObject({ status: name === "commit" ? "committed" : "released" });
  },
);

it.each(["commit", "release"] as const)(
  "an extension that races with a settlement does not stop a %s that has read the reservation before it",
  async (name) => {
    const spender = await holder();
    const d1 = between(() => extend(spender, 600));
    await settlements[name](spender, d1);
    expect(await read(spender)).toMatchObject({ status: name === "commit" ? "committed" : "released" });
    expect(await spender.remaining()).toEqual([name === "commit" ? 6 : 10]);
  },
);

it("an extension that races with a settlement fails if the cron returns the hold first", async () => {
  const spender = await holder();
  const { clock } = spender;
  clock.advance(59_999);
  const d1 = between(async () => {
    clock.advance(1);
    await runHoldsPart(spender);
  });
  await expect(extendReservation(ctxOf(spender, d1), "res_1", { expiresInSeconds: 600 })).rejects.toMatchObject({
    code: "reservation_closed",
  });
  expect(await spender.remaining()).toEqual([10]);
});

it.each([
  ["the cron", (spender: Spender, d1: D1Database) => runHoldsPart(spender, d1), 3, [6]],
  [
    "the user's next write",
    (spender: Spender, d1: D1Database) => releaseReservation(ctxOf(spender, d1), "res_1"),
    2,
    [10],
  ],
] as const)(
  "an extension that races with a settlement wins if it is written before %s returns the hold as expired",
  async (_name, write, lastTrip, left) => {
    const spender = await holder();
    const { clock } = spender;
    clock.advance(60_000);
    let isExtended = false;
    const d1 = hookedD1(env.DB, async (trip) => {
      if (isExtended || trip !== lastTrip) return;
      isExtended = true;
      // Another isolate's clock is a millisecond behind.
      clock.advance(-1);
      expect((await extend(spender.inNewIsolate(), 600)).status).toBe(200);
      clock.advance(1);
    });
    await write(spender, d1);
    expect(isExtended).toBe(true);
    expect(await spender.remaining()).toEqual(left);
    expect((await spender.ledger()).map(({ reason }) => reason)).not.toContain("reservation_expired");
  },
);

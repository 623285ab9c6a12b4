import { afterAll, expect, it } from "vitest";
import { holdsPart } from "../../../../src/books/usage/expire.ts";
import { scheduled } from "../../../../src/cron.ts";
import { iso } from "../../../../src/lib/time.ts";
import { expectLedgerInvariants } from "../../../support/invariants.ts";
import { RESERVATIONS } from "../../../support/paths.ts";
import { expectError } from "../../../support/rejections.ts";
import { cents, makeSpender, type Spender, wallet } from "../../../support/spender.ts";
import { bound } from "../../../support/world.ts";

afterAll(expectLedgerInvariants);

const read = async ({ get }: Spender, id: string) => (await get(`${RESERVATIONS}/${id}`)).body;
async function list({ get, userId }: Spender, parts: Record<string, string> = {}) {
  const { status, body } = await get(`${RESERVATIONS}?${new URLSearchParams({ userId, ...parts })}`);
  expect(status).toBe(200);
  return body;
}
const idsOf = (page: { reservations: { reservationId: string }[] }) =>
  page.reservations.map(({ reservationId }) => reservationId);

it("reading a reservation shows its quantities, holds and end", async () => {
  const spender = await makeSpender([wallet]);
  const { clock, userId, balanceIds } = spender;
  const createdAtMs = clock.ms;
  await spender.reserve({ reservationId: "res_1", model: "large", expiresInSeconds: 60, ...cents(3) });
  clock.advance(59_999);
  const hold = { balanceId: balanceIds[0], packId: expect.any(String), unit: "cents", amount: 3 };
  const open = {
    reservationId: "res_1",
    ...{ userId, event: "chat.completed", model: "large", quantities: { count: 1, cents: 3 }, onExpiry: "return" },
    ...{ memberId: null, meters: null, priceVersion: null },
    ...{ status: "open", createdAt: iso(createdAtMs), expiresAt: iso(createdAtMs + 60_000), settledAt: null },
    ...{ eventId: null, holds: [hold] },
  };
  expect(await read(spender, "res_1")).toEqual(open);
  expect(await list(spender)).toEqual({ reservations: [open], nextCursor: null });
});

it("reading a reservation that was settled shows how, when and by which event", async () => {
  const spender = await makeSpender([wallet]);
  const { reserve, post, clock } = spender;
  for (const id of ["res_1", "res_2"]) await reserve({ reservationId: id, ...cents(1) });
  clock.advance(1_000);
  await post(`${RESERVATIONS}/res_1/commit`, { eventId: "e1", ...cents(1) });
  await post(`${RESERVATIONS}/res_2/release`);
  const settledAt = iso(clock.ms);
  expect(await read(spender, "res_1")).toMatchObject({ status: "committed", settledAt, eventId: "e1" });
  expect(await read(spender, "res_2")).toMatchObject({ status: "released", settledAt, eventId: null });
});

it("reading a reservation that is due shows expired before its holds return, and the event of a late commit afterwards", async () => {
  const spender = await makeSpender([wallet]);
  const { reserve, post, clock } = spender;
  await reserve({ reservationId: "res_1", expiresInSeconds: 60, ...cents(1) });
  clock.advance(60_000);
  expect(await read(spender, "res_1")).toMatchObject({ status: "expired", settledAt: null, eventId: null });
  expect(idsOf(await list(spender, { status: "expired" }))).toEqual(["res_1"]);
  expect(idsOf(await list(spender, { status: "open" }))).toEqual([]);
  clock.advance(5_000);
  await scheduled(bound(), { isolate: {}, now: clock.now, newId: () => "cron" }, [holdsPart]);
  const expired = { status: "expired", settledAt: iso(clock.ms) };
  expect(await read(spender, "res_1")).toMatchObject({ ...expired, eventId: null });
  clock.advance(5_000);
  await post(`${RESERVATIONS}/res_1/commit`, { eventId: "e1", ...cents(1) });
  expect(await read(spender, "res_1")).toMatchObject({ ...expired, eventId: "e1" });
});

it("reading a reservation that does not exist is reservation_not_found", async () => {
  const { get } = await makeSpender([]);
  expectError(await get(`${RESERVATIONS}/res_unknown`), "reservation_not_found", "reservationId");
});

it("the list of reservations pages newest first, of one status or of all, even if others are created or settled meanwhile", async () => {
  const spender = await makeSpender([wallet]);
  const { reserve, post, clock } = spender;
  const ids = Array.from({ length: 7 }, (_, index) => `res_${index}`);
  for (const reservationId of ids) {
    await reserve({ reservationId, ...cents(0.5) });
    // res_2 and res_3 have the same time, and are ordered by their ids.
    if (reservationId !== "res_2") clock.advance(10);
  }
  for (const id of ["res_1", "res_4"]) await post(`${RESERVATIONS}/${id}/release`);
  await post(`${RESERVATIONS}/res_5/commit`, { eventId: "e1", ...cents(0.5) });
  const newest = ids.toReversed();
  expect(idsOf(await list(spender))).toEqual(newest);
  const first = await list(spender, { limit: "3" });
  expect(idsOf(first)).toEqual(newest.slice(0, 3));
  await reserve({ reservationId: "res_new", ...cents(0.5) });
  await post(`${RESERVATIONS}/res_2/release`);
  const second = await list(spender, { limit: "3", cursor: first.nextCursor });
  expect(idsOf(second)).toEqual(newest.slice(3, 6));
  const third = await list(spender, { limit: "3", cursor: second.nextCursor });
  expect(third).toMatchObject({ reservations: [{ reservationId: "res_0" }], nextCursor: null });

  expect(idsOf(await list(spender, { status: "open" }))).toEqual(["res_new", "res_6", "res_3", "res_0"]);
  expect(idsOf(await list(spender, { status: "committed" }))).toEqual(["res_5"]);
  const released = await list(spender, { status: "released", limit: "2" });
  expect(idsOf(released)).toEqual(["res_4", "res_2"]);
  const rest = await list(spender, { status: "released", limit: "2", cursor: released.nextCursor });
  expect(rest).toMatchObject({ reservations: [{ reservationId: "res_1" }], nextCursor: null });
});

it("the list of reservations rejects an altered or foreign cursor, a limit out of bounds and an unknown status", async () => {
  const spender = await makeSpender([wallet]);
  const { get, userId, reserve } = spender;
  for (const id of ["res_1", "res_2"]) await reserve({ reservationId: id, ...cents(1) });
  const { nextCursor } = await list(spender, { limit: "1" });
  const path = `${RESERVATIONS}?userId=${userId}`;
  const flipped = `${nextCursor.startsWith("A") ? "B" : "A"}${nextCursor.slice(1)}`;
  for (const more of [`cursor=${flipped}`, `status=open&cursor=${nextCursor}`, "cursor=x"]) {
    expectError(await get(`${path}&${more}`), "invalid_request", "cursor");
  }
  expectError(await get(`${RESERVATIONS}?userId=other&cursor=${nextCursor}`), "invalid_request", "cursor");
  for (const limit of ["0", "501", "x"]) expectError(await get(`${path}&limit=${limit}`), "invalid_request", "limit");
  expectError(await get(`${path}&status=due`), "invalid_request", "status");
  expectError(await get(RESERVATIONS), "invalid_request", "userId");
});

it("the list of reservations of a user without reservations is empty", async () => {
  expect(await list(await makeSpender([]))).toEqual({ reservations: [], nextCursor: null });
});

import { expect, it } from "vitest";
import { openDashboard, queryOf, tableRows } from "../../support/browse.ts";
import { Clock, makeApp, makeClient, makePack } from "../../support/world.ts";

async function world() {
  const clock = new Clock();
  const app = await makeApp();
  const { read, send } = await openDashboard(app, clock);
  const call = makeClient(clock);
  const key = app.keys.sk_live;
  const packId = await makePack(app.appId, "Duo", [
    { amountMinor: 100_000, unit: "tokens" },
    { amountMinor: 20_000, unit: "count" },
  ]);
  const post = async (path: string, body: object) => (await call("POST", `/api/v1/${path}`, { key, body })).body;
  const balancesOf = async (userId: string) => {
    const { body } = await call("GET", `/api/v1/credits${queryOf({ userId })}`, { key });
    return body.credits as { balanceId: string; unit: string; remaining: number }[];
  };
  const leftOf = async (userId: string) =>
    (await balancesOf(userId)).map(({ remaining }) => remaining).toSorted((a, b) => a - b);
  const page = async (path: string, fields: Record<string, string>) => (await read(path + queryOf(fields))).text;
  const factsOf = (text: string) =>
    [...text.matchAll(/<dt>(.*?)<\/dt><dd>(.*?)<\/dd>/gs)].map((pair) =>
      pair.slice(1).map((part) =>
        (part ?? "")
          .replaceAll(/<[^>]*>/g, " ")
          .replaceAll(/\s+/g, " ")
          .trim(),
      ),
    );
  return { clock, packId, post, balancesOf, leftOf, page, send, factsOf };
}

it("a release shows each balance before and after, also where a due hold returns first and where a balance is revoked", async () => {
  const { clock, packId, post, balancesOf, leftOf, page, send, factsOf } = await world();
  await post("credits/grant", { userId: "ada", packId });
  const hold = (reservationId: string, quantities: object, more = {}) =>
    post("usage/reservations", { reservationId, userId: "ada", event: "chat", quantities, ...more });
  await hold("res_due", { count: 7 }, { expiresInSeconds: 1 });
  await hold("res_main", { count: 5 });
  clock.advance(2_000);
  const facts = factsOf(await page("users/reservation/release", { reservationId: "res_main" }));
  expect(facts).toEqual([
    ["User", "ada"],
    ["Reservation", "res_main"],
    ["Duo", "15 → 20 count"],
  ]);
  const count = (await balancesOf("ada")).find(({ unit }) => unit === "count");
  await post("credits/revoke", { balanceId: count?.balanceId, reason: "Mistake" });
  const revoked = factsOf(await page("users/reservation/release", { reservationId: "res_main" }));
  expect(revoked.slice(2)).toEqual([["Duo", "0 → 0 count"]]);
  expect((await send("users/reservation/release", { reservationId: "res_main", userId: "ada" })).status).toBe(303);
  expect(await leftOf("ada")).toEqual([100]);
});

it("a cancellation of a recurring grant shows what it would revoke, with what a due hold returns", async () => {
  const { clock, packId, post, leftOf, page, send, factsOf } = await world();
  await post("credits/recurring", { recurringId: "rec_a", userId: "ada", packId, every: "month" });
  await post("credits/grant", { userId: "ada", packId });
  await post("usage/reservations", {
    ...{ reservationId: "res_b", userId: "ada", event: "chat", quantities: { tokens: 60 }, expiresInSeconds: 1 },
  });
  await post("usage/events", { eventId: "e-1", userId: "ada", event: "chat", quantities: { count: 3 } });
  clock.advance(2_000);
  const facts = factsOf(await page("users/recurring/cancel", { userId: "ada", recurringId: "rec_a" }));
  expect(facts.at(-1)).toEqual(["Its credits afterwards, if now", "17 → 0 count 100 → 0 tokens"]);
  const form = { userId: "ada", recurringId: "rec_a", at: "now", reason: "Asked" };
  expect((await send("users/recurring/cancel", form)).status).toBe(303);
  expect(await leftOf("ada")).toEqual([20, 100]);
});

it("a bulk grant shows each user's total before and after, and that of whom it grants nothing", async () => {
  const { packId, post, send } = await world();
  await post("credits/grant", { userId: "ada", packId, externalRef: "other" });
  await post("credits/grant", { userId: "bob", packId, externalRef: "bulk-1" });
  const form = { users: "ada\nbob\ncem", packId, ref: "bulk-1", notes: "Goodwill", nonce: "n" };
  const preview = await (await send("users/bulk-grant/preview", form)).text();
  const [ada, bob, cem] = tableRows(preview, "Users");
  expect(ada).toMatch(/known 100 → 200 tokens 20 → 40 count$/);
  expect(bob).toMatch(/granted before unchanged$/);
  expect(cem).toMatch(/new user 0 → 100 tokens 0 → 20 count$/);
});

import { expect, it, vi } from "vitest";
import { Purser } from "../../clients/typescript/src/index.ts";

function client() {
  const fetch = vi.fn(async (_url: string, _init: RequestInit) =>
    Response.json({ reservationId: "res_1", holds: [], status: "released" }),
  );
  return { fetch, purser: new Purser({ url: "https://purser.example", key: "sk_live_x", fetch }) };
}
const usage = { userId: "u", event: "chat" };

it.each([
  [10n, "is a BigInt. Send a number: Number(value)."],
  [Number.NaN, "is NaN. Send a finite number."],
  [Number.POSITIVE_INFINITY, "is Infinity. Send a finite number."],
  [Number.NEGATIVE_INFINITY, "is -Infinity. Send a finite number."],
])("the client refuses %s in words that name the field, and sends nothing", async (value, says) => {
  const { fetch, purser } = client();
  const wrong = value as number;
  const event = { ...usage, quantities: { tokens: wrong } };
  const calls: [() => Promise<unknown>, string][] = [
    [() => purser.recordUsageEvent(event), `recordUsageEvent: quantities.tokens ${says}`],
    [() => purser.recordUsageEvents([usage, event]), `recordUsageEvents: [1].quantities.tokens ${says}`],
    [() => purser.grantCredits({ userId: "u", packId: "p", quantity: wrong }), `grantCredits: quantity ${says}`],
    [() => purser.usage.hold(event, () => "done"), `createReservation: quantities.tokens ${says}`],
    [
      () =>
        purser.usage.hold({ ...usage, quantities: { tokens: 1 }, properties: { temperature: wrong } }, () => "done"),
      `usage.hold: properties.temperature ${says}`,
    ],
  ];
  for (const [call, message] of calls) {
    await expect(async () => call()).rejects.toThrow(new TypeError(message));
  }
  expect(fetch).not.toHaveBeenCalled();
});

it("the client rejects a report of NaN where it is made, commits nothing and releases the hold", async () => {
  const { fetch, purser } = client();
  const hold = purser.usage.hold({ ...usage, quantities: { tokens: 5 } }, ({ used }) => used({ tokens: Number.NaN }));
  await expect(hold).rejects.toThrow(new TypeError("hold.used: tokens is NaN. Send a finite number."));
  expect(fetch.mock.calls.map(([url]) => url.split("/").at(-1))).toEqual(["reservations", "release"]);
});

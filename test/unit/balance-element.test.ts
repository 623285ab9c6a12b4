import { expect, it } from "vitest";
import { nextToExpire, totalsByUnit } from "../../clients/balance/credits.ts";
import { nextToBegin, placeOf } from "../../clients/balance/limits.ts";

const balance = (unit: string, remaining: number, expiresAt: string | null = null) => ({
  unit,
  remaining,
  initial: remaining * 2,
  expiresAt,
});

it("the balance element sums credits by unit in the order of the list, without rounding errors", () => {
  const totals = totalsByUnit([balance("tokens", 0.1), balance("cents", 1), balance("tokens", 0.2)]);
  expect([...totals]).toEqual([
    ["tokens", { remaining: 0.3, initial: 0.6 }],
    ["cents", { remaining: 1, initial: 2 }],
  ]);
});

it("the balance element shows the earliest expiry with all credits that expire then", () => {
  const [early, late] = ["2027-01-01T00:00:00.000Z", "2027-01-02T00:00:00.000Z"];
  const credits = [
    balance("tokens", 5, late),
    balance("tokens", 2, early),
    balance("cents", 3),
    balance("tokens", 1, early),
  ];
  expect(nextToExpire(credits)).toEqual({
    at: new Date(early),
    totals: new Map([["tokens", { remaining: 3, initial: 6 }]]),
  });
  expect(nextToExpire([balance("cents", 3)])).toBeNull();
  expect(nextToExpire([])).toBeNull();
});

it("the balance element shows the recurring grant whose next period begins first", () => {
  const [early, late] = ["2027-01-01T00:00:00.000Z", "2027-01-02T00:00:00.000Z"];
  const recurring = [
    { packName: "Pro", nextAt: late },
    { packName: "Ended", nextAt: null },
    { packName: "Free", nextAt: early },
  ];
  expect(nextToBegin(recurring)).toEqual({ at: new Date(early), packName: "Free" });
  expect(nextToBegin([{ packName: "Ended", nextAt: null }])).toBeNull();
});

it("the balance element names the place of a limit's time zone, and none for UTC and short windows", () => {
  expect(["Europe/Berlin", "America/Argentina/Buenos_Aires", "EST5EDT", "UTC", null].map(placeOf)).toEqual([
    ...["Berlin", "Buenos Aires", "EST5EDT", null, null],
  ]);
});

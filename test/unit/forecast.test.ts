import { expect, it } from "vitest";
import { type DebitsRow, forecastUnits } from "../../src/books/credits/forecast.ts";
import { NEVER_MS, type PayingRow } from "../../src/books/ledger/balance.ts";
import type { Minor } from "../../src/db/schema.ts";
import { DAY_MS } from "../../src/lib/time.ts";

const NOW_MS = Date.parse("2026-03-31T12:00:00Z");
const minor = (tokens: number) => (tokens * 1_000) as Minor;

/** Debits of tokens, the first of them some days ago. */
const debits = (tokens: number, daysAgo: number, row: Partial<DebitsRow> = {}): DebitsRow => ({
  ...{ unit: "tokens", matches: "[]", firstAtMs: NOW_MS - daysAgo * DAY_MS, examinedFromMs: null },
  ...{ entriesExamined: 20, entriesOfDay: null },
  ...{ whole: 0, rest: minor(tokens) },
  ...row,
});
const balance = (tokens: number, expiresInDays: number | null, row: Partial<PayingRow> = {}): PayingRow => ({
  ...{ id: `crb_${tokens}`, packId: "pak_1", packName: "Pack", unit: "tokens", matches: "[]", priority: 100 },
  ...{ remainingMinor: minor(tokens), grantedAtMs: 0, revokedAtMs: null },
  expiresAtMs: expiresInDays === null ? NEVER_MS : NOW_MS + expiresInDays * DAY_MS,
  ...row,
});
const tell = (rows: readonly DebitsRow[], balances: readonly PayingRow[], nextGrantInDays?: number) =>
  forecastUnits(rows, balances, nextGrantInDays === undefined ? null : NOW_MS + nextGrantInDays * DAY_MS, NOW_MS);

it("divides what is left by what was debited a day since the first debit", () => {
  expect(tell([debits(100, 9)], [balance(50, null)])).toEqual([
    { unit: "tokens", aDay: 10, days: 10, daysLeft: 5, expiring: 0 },
  ]);
});

it("lets a balance pay only until it expires, in spending order", () => {
  // 10 a day: the balance that expires in two days pays 20 of its 500, then the other one lasts five more days.
  expect(tell([debits(100, 9)], [balance(50, null), balance(500, 2)])).toMatchObject([{ daysLeft: 7, expiring: 480 }]);
  // Everything expires before it is debited.
  expect(tell([debits(100, 9)], [balance(500, 3)])).toMatchObject([{ daysLeft: 3, expiring: 470 }]);
  // A lower priority pays first, so the balance that expires is not touched before.
  expect(tell([debits(100, 9)], [balance(50, null, { priority: 1 }), balance(500, 2)])).toMatchObject([
    { daysLeft: 5, expiring: 500 },
  ]);
});

it("tells a user with nothing left that it is out", () => {
  expect(tell([debits(100, 9)], [])).toMatchObject([{ unit: "tokens", daysLeft: 0, aDay: 10 }]);
});

it("tells nothing without debits, and nothing when holds returned everything", () => {
  expect(tell([], [balance(50, null)])).toEqual([]);
  expect(tell([debits(0, 9)], [balance(50, null)])).toEqual([]);
});

it("tells nothing of a unit whose balances pay for different events", () => {
  const chat = { matches: '[{"event":"chat"}]' };
  expect(tell([debits(100, 9)], [balance(50, null), balance(50, null, chat)])).toEqual([]);
  expect(tell([debits(100, 9, chat)], [balance(50, null)])).toEqual([]);
  expect(tell([debits(100, 9, chat)], [balance(50, null, chat)])).toMatchObject([{ daysLeft: 5 }]);
});

it("tells nothing of a user with more balances than are read, whatever their units", () => {
  const cents = (count: number) => Array.from({ length: count }, (_, n) => balance(n, null, { unit: "cents" }));
  expect(tell([debits(100, 9)], [balance(50, null), ...cents(99)])).toMatchObject([{ unit: "tokens", daysLeft: 5 }]);
  expect(tell([debits(100, 9)], [balance(50, null), ...cents(100)])).toEqual([]);
});

it("tells nothing when a recurring grant brings more first", () => {
  expect(tell([debits(100, 9)], [balance(50, null)], 4)).toEqual([]);
  expect(tell([debits(100, 9)], [balance(50, null)], 6)).toMatchObject([{ daysLeft: 5 }]);
});

it("takes the rate of the time that it examined when a user has more entries", () => {
  const rows = [debits(100, 2, { examinedFromMs: NOW_MS - 2 * DAY_MS })];
  expect(tell(rows, [balance(50, null)])).toMatchObject([{ aDay: 50, daysLeft: 1 }]);
});

it("takes the rate of the last day's entries when the examined ones are a part of them", () => {
  const rows = [debits(100, 0.01, { examinedFromMs: NOW_MS - DAY_MS / 100, entriesOfDay: 30 })];
  expect(tell(rows, [balance(300, null)])).toMatchObject([{ aDay: 150, daysLeft: 2 }]);
});

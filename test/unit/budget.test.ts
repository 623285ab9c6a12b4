import fc from "fast-check";
import { expect, it } from "vitest";
import type { ListName } from "../../src/exports/lists.ts";
import { EXPORT_QUERIES_MAX, pageRowsMin } from "../../src/exports/span-cursor.ts";

type Bounds = readonly { readonly id: string; readonly last: number }[];
const sizeOf = (bounds: Bounds) => ({
  rows: bounds.reduce((sum, { last }) => sum + last, 0),
  seqs: bounds.reduce((sum, { last }) => sum + last, 0),
  ids: bounds.length,
  idBytes: bounds.reduce((sum, { id }) => sum + 3 * id.length, 0),
});
const sizeOfRows = (last: number) => sizeOf([{ id: "ana", last }]);
const nothing = sizeOf([]);
const none = { ledger: nothing, exports: nothing, analytics: nothing, metering: nothing, consent: nothing };
const ofAnalytics = (analyticsBytes: number) => ({ analyticsBytes, propertiesBytes: 0, propertiesCount: 0 });

it("shares the query budget between all lists: a million rows in each of two fit, and small exports keep small pages", () => {
  const million = sizeOfRows(1_000_000);
  const rows = pageRowsMin({ ...none, analytics: million, metering: million }, ofAnalytics(300_000_000)) ?? 0;
  expect(rows).toBeGreaterThan(2_000);
  expect(2 * Math.ceil(1_000_000 / rows)).toBeLessThan(EXPORT_QUERIES_MAX / 2);
  expect(pageRowsMin({ ...none, analytics: sizeOfRows(4_000) }, ofAnalytics(1_000_000))).toBeLessThan(2_000);
});

it("keeps all pages of lists, large rows and balances within the query limit", () => {
  const bound = fc.array(fc.record({ id: fc.constantFrom("ana", "x".repeat(200)), last: fc.nat(300_000) }), {
    maxLength: 40,
  });
  fc.assert(
    fc.property(bound, bound, bound, bound, bound, fc.nat(2_000_000_000), (...args) => {
      const [ledger, exports, analytics, metering, consent, bytes] = args;
      const bounds = { ledger, exports, analytics, metering, consent };
      const sizes = {
        ledger: sizeOf(ledger),
        exports: sizeOf(exports),
        analytics: sizeOf(analytics),
        metering: sizeOf(metering),
        consent: sizeOf(consent),
      };
      const rowsMin = pageRowsMin(sizes, ofAnalytics(bytes));
      if (rowsMin === null) return;
      const pages = (name: ListName) => {
        const rows = bounds[name].reduce((sum, { last }) => sum + last, 0);
        return rows === 0 ? 0 : Math.ceil(rows / Math.max(rowsMin, 2_000));
      };
      const heavy = pages("analytics") + pages("metering") + pages("ledger") + Math.ceil(bytes / 4_000_000);
      const ledgerRows = ledger.reduce((sum, { last }) => sum + last, 0);
      const balances = Math.ceil(ledgerRows / Math.max(500, rowsMin / 4));
      const all = (["ledger", "exports", "analytics", "metering", "consent"] as const).map(pages);
      expect(all.reduce((sum, count) => sum + count, 0) + heavy + balances + 12).toBeLessThanOrEqual(
        EXPORT_QUERIES_MAX,
      );
    }),
  );
});

it("rejects an export whose pages would not fit into memory, or whose bytes need too many queries", () => {
  expect(pageRowsMin({ ...none, analytics: sizeOfRows(10_000_000) }, ofAnalytics(0))).toBeNull();
  expect(pageRowsMin({ ...none, analytics: sizeOfRows(10) }, ofAnalytics(3_000_000_000))).toBeNull();
});

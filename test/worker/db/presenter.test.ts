import { env } from "cloudflare:workers";
import { getTableColumns, type SQL, sql } from "drizzle-orm";
import type { SQLiteColumn, SQLiteTable } from "drizzle-orm/sqlite-core";
import fc from "fast-check";
import { expect, it } from "vitest";
import { fromMinor } from "../../../src/books/amounts/amount.ts";
import { amountJson } from "../../../src/books/amounts/amount-sql.ts";
import { exportedEntryFields, presentExportedEntry } from "../../../src/books/credits/history.ts";
import { describedEvent, usageTimes } from "../../../src/books/usage/describe-events.ts";
import { isoJson, presenter, type WireFields } from "../../../src/db/presenter.ts";
import { names, query, readArrays, type ValueOf } from "../../../src/db/query.ts";
import {
  consentLog,
  creditBalances,
  creditLedger,
  exportAudit,
  reservations,
  usageEvents,
} from "../../../src/db/schema.ts";
import { exportAuditFields, presentAuditRow } from "../../../src/exports/export-audit.ts";
import { jsonOf } from "../../../src/exports/lists.ts";
import { iso } from "../../../src/lib/time.ts";
import { consentWireFields, presentConsent } from "../../../src/people/consent.ts";
import { minor } from "../../support/minor.ts";
import { soakCount } from "../../support/soak.ts";

const FIRST_MS = Date.parse("0000-01-01T00:00:00.000Z");
const LAST_MS = Date.parse("9999-12-31T23:59:59.999Z");
const MINOR_MAX = 8_589_934_592_000_000;

/** Returns the JSON that SQL writes for each row of `source`. `table` turns `rows` into the table that `source` reads. */
async function jsonBySql(json: SQL, source: SQL, table: SQL, rows: readonly (readonly unknown[])[]): Promise<string[]> {
  const statement = query((value: ValueOf<{ rows: string }>) =>
    readArrays(
      [sql<string>`${json}`],
      (list) =>
        sql`WITH row AS (SELECT key, value FROM json_each(${value("rows")})), ${table} SELECT ${list} FROM ${source}`,
    ),
  );
  const { text, params } = statement({ rows: JSON.stringify(rows) });
  const results = await env.DB.prepare(text)
    .bind(...params)
    .raw<[string]>();
  return results.map(([json]) => json);
}

/** A common table expression with a table's name and these columns, which have the values of a row from `first` on. */
function asTable(table: SQLiteTable, columns: readonly SQLiteColumn[], first = 0): SQL {
  const values = sql.join(
    columns.map((_, index) => sql`value ->> ${`$[${first + index}]`}`),
    sql`, `,
  );
  return sql`${table} (place, ${names(...columns)}) AS (SELECT key, ${values} FROM row)`;
}

const text = fc.string({ unit: "grapheme", maxLength: 40 }).filter((text) => !text.includes("\0"));
/** Any value that a column may have. */
function anyOf(name: string, { dataType, enumValues, notNull }: SQLiteColumn): fc.Arbitrary<unknown> {
  const value: fc.Arbitrary<unknown> =
    enumValues !== undefined && enumValues.length > 0
      ? fc.constantFrom(...enumValues)
      : dataType === "boolean"
        ? fc.boolean()
        : name.endsWith("Ms")
          ? fc.integer({ min: FIRST_MS, max: LAST_MS })
          : name.endsWith("Steps")
            ? fc.integer({ min: -MINOR_MAX, max: MINOR_MAX })
            : dataType === "number"
              ? fc.integer({ min: 1, max: 2 ** 48 })
              : name === "balanceId"
                ? text.map((suffix) => `crb_${suffix}`)
                : name === "meters"
                  ? fc.dictionary(fc.stringMatching(/^[a-z]{1,9}$/), fc.nat()).map((meters) => JSON.stringify(meters))
                  : text;
  return notNull ? value : fc.option(value, { freq: 4 });
}

interface Presented {
  readonly table: SQLiteTable;
  /** Another table that has some of the fields, and the names of these columns in a row. */
  readonly beside?: readonly { readonly table: SQLiteTable; readonly names: Readonly<Record<string, string>> }[];
  readonly fields: WireFields;
  readonly present: (row: never) => object;
}

const PRESENTED: Readonly<Record<string, Presented>> = {
  "a ledger entry": {
    table: creditLedger,
    beside: [
      { table: creditBalances, names: { balanceId: "id", packId: "packId", unit: "unit" } },
      { table: usageEvents, names: { eventId: "eventId", reservationOfEvent: "reservationId" } },
      { table: reservations, names: { reservationId: "id" } },
    ],
    fields: exportedEntryFields,
    present: presentExportedEntry,
  },
  "a consent": { table: consentLog, fields: consentWireFields, present: presentConsent },
  "a usage event": {
    table: usageEvents,
    fields: { ...describedEvent, ...usageTimes },
    present: presenter({ ...describedEvent, ...usageTimes }),
  },
  "a row of the exports' audit": { table: exportAudit, fields: exportAuditFields, present: presentAuditRow },
};

it.each(Object.entries(PRESENTED))(
  "SQL writes the same values of %s as JavaScript, field by field, for any row",
  async (_, presented) => {
    const { table, beside = [], fields, present } = presented;
    const own = Object.entries<SQLiteColumn>(getTableColumns(table));
    const others = beside.map(({ table, names }) => {
      const columns: Readonly<Record<string, SQLiteColumn>> = getTableColumns(table);
      return {
        table,
        columns: Object.entries(names).map(([name, of]) => [name, columns[of] as SQLiteColumn] as const),
      };
    });
    const borrowed = others.flatMap(({ columns }) => columns);
    const properties = [...own, ...borrowed];
    const rows = fc.sample(fc.record(Object.fromEntries(properties.map(([name, one]) => [name, anyOf(name, one)]))), {
      numRuns: soakCount(300, 50),
      seed: 1,
    });
    const stored = rows.map((row) =>
      properties.map(([name]) => {
        const value = row[name];
        return typeof value === "boolean" ? Number(value) : value;
      }),
    );
    const { head, body } = jsonOf({ fields, bodyFrom: Object.keys(fields).at(-1) ?? "" });
    const columnsOf = (list: readonly (readonly [string, SQLiteColumn])[]) => list.map(([, column]) => column);
    const ownTable = asTable(table, columnsOf(own));
    const source = others.reduce((joined, other) => sql`${joined} JOIN ${other.table} USING (place)`, sql`${table}`);
    let first = own.length;
    const tables = others.reduce((all, other) => {
      const next = sql`${all}, ${asTable(other.table, columnsOf(other.columns), first)}`;
      first += other.columns.length;
      return next;
    }, ownTable);
    const texts = await jsonBySql(sql`${head} || ${body} || '}'`, source, tables, stored);
    const shown = rows.map((row) => present(row as never));
    expect(texts.map((text) => JSON.parse(text))).toEqual(shown);
    // In the same order of fields.
    expect(texts.map((text) => Object.keys(JSON.parse(text)))).toEqual(shown.map(Object.keys));
  },
);

/** Returns the JSON that SQL writes for numbers, which it reads from the column `v.n`. */
const ofNumbers = (json: SQL, numbers: readonly number[]) =>
  jsonBySql(
    json,
    sql`v`,
    sql`v AS (SELECT value ->> 0 AS n FROM row)`,
    numbers.map((number) => [number]),
  );

it("SQL writes times as JavaScript does, to the millisecond, in all years of four digits", async () => {
  const everyMillisecond = Array.from({ length: 3_000 }, (_, index) => index - 1_500);
  const starts = [FIRST_MS, -62_135_596_800_000, -1_500, 0, 1_762_161_300_000, 4_102_444_799_000, LAST_MS - 2_000];
  const spread = Array.from({ length: 20_000 }, (_, index) =>
    Math.round(FIRST_MS + ((LAST_MS - FIRST_MS) / 19_999) * index),
  );
  const values = [
    ...starts.flatMap((start) => Array.from({ length: 2_001 }, (_, index) => start + index)),
    ...everyMillisecond,
    ...spread,
  ].filter((ms) => ms >= FIRST_MS && ms <= LAST_MS);
  const expected = values.map((ms) => JSON.stringify(iso(ms)));
  expect(await ofNumbers(isoJson(sql`v.n`), values)).toEqual(expected);
});

it("SQL writes amounts as decimals that parse to the numbers of other responses, without trailing zeros", async () => {
  const small = [0, 1, -1, 10, -10, 100, 999, 1_000, 1_001, 12_340, -12_345, 1_000_000, 1_000_001, 123_456_789];
  const large = [8_796_093_022_208_000, -8_796_093_022_207_999, MINOR_MAX, 8_589_934_591_999_999];
  const random = Array.from({ length: 5_000 }, (_, index) => (index * 1_759_218_604_441.6) | 0 || index);
  const values = [...small, ...large, ...random, ...random.map((value) => value * 2_000_003)];
  for (const unit of ["count", "tokens", "seconds", "cents"] as const) {
    for (const unitSql of [unit, sql`${unit}`]) {
      const texts = await ofNumbers(amountJson(sql`v.n`, unitSql), values);
      expect(texts.map((text) => JSON.parse(text))).toEqual(values.map((value) => fromMinor(unit, minor(value))));
      expect(texts.filter((text) => /\.\d*0$|\.$/.test(text))).toEqual([]);
    }
  }
});

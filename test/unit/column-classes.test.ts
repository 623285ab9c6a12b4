import { is } from "drizzle-orm";
import { getTableConfig, SQLiteTable } from "drizzle-orm/sqlite-core";
import { expect, it } from "vitest";
import * as schema from "../../src/db/schema.ts";
import { columnClasses } from "../support/column-classes.ts";

const tables = Object.values<unknown>(schema)
  .filter((value): value is SQLiteTable => is(value, SQLiteTable))
  .map((table) => getTableConfig(table));

it.each(tables.map(({ name, columns }) => [name, columns.map((column) => column.name)] as const))(
  "the classes of columns name every column of %s once, and no others",
  (name, columns) => {
    const classed = Object.values(columnClasses[name] ?? {}).flat();
    expect(classed.toSorted()).toEqual(columns.toSorted());
  },
);

it("the classes of columns name every table, and no others", () => {
  expect(Object.keys(columnClasses).sort()).toEqual(tables.map(({ name }) => name).sort());
});

import { and, eq, exists, notExists, sql } from "drizzle-orm";
import { alias, integer, primaryKey, sqliteTable, text } from "drizzle-orm/sqlite-core";
import { expect, expectTypeOf, it } from "vitest";
import {
  assignments,
  boundLimit,
  computed,
  drizzle,
  fields,
  insertFrom,
  names,
  query,
  read,
  readArrays,
  returning,
  scalar,
  type ValueOf,
} from "../../src/db/query.ts";
import type { Statement } from "../../src/db/sql.ts";

const things = sqliteTable(
  "things",
  {
    appId: text("app_id").notNull(),
    id: text("id").notNull(),
    rules: text("rules", { mode: "json" }).$type<readonly string[]>(),
    isOpen: integer("is_open", { mode: "boolean" }).notNull().default(true),
    madeMs: integer("made_ms").notNull(),
  },
  (t) => [primaryKey({ columns: [t.appId, t.id] })],
);
const parts = sqliteTable("parts", { appId: text("app_id").notNull(), thingId: text("thing_id").notNull() });

type Key = { appId: string; id: string };
const ofKey = (value: ValueOf<Key>) => and(eq(things.appId, value("appId")), eq(things.id, value("id")));

const find = query((value: ValueOf<Key>) =>
  drizzle
    .select(fields(things, "id", "rules", "isOpen"))
    .from(things)
    .where(ofKey(value)),
);

it("a statement from Drizzle's builder names each column with its table, and binds values in order", () => {
  const { text, params, isRead } = find({ id: "one", appId: "app" });
  expect(text).toBe(
    'select "things"."id" as "id", "things"."rules" as "rules", "things"."is_open" as "isOpen" from "things"' +
      ' where ("things"."app_id" = ? and "things"."id" = ?)',
  );
  expect(params).toEqual(["app", "one"]);
  expect(isRead).toBe(true);
});

it("a statement from Drizzle's builder reads booleans, JSON and nulls as the schema defines them", () => {
  const { map } = find({ id: "one", appId: "app" });
  expect(
    map?.([
      { id: "one", rules: '["a"]', isOpen: 1 },
      { id: "two", rules: null, isOpen: 0 },
    ]),
  ).toEqual([
    { id: "one", rules: ["a"], isOpen: true },
    { id: "two", rules: null, isOpen: false },
  ]);
  expectTypeOf(find).returns.toEqualTypeOf<
    Statement<{ id: string; rules: readonly string[] | null; isOpen: boolean }>
  >();
});

it("a statement from Drizzle's builder returns D1's rows unchanged when no column needs decoding", () => {
  const plain = query(() => drizzle.select(fields(things, "id", "madeMs")).from(things));
  expect(plain({}).map).toBeUndefined();
});

it("a statement from Drizzle's builder is built once, on first use", () => {
  let built = 0;
  const count = query((value: ValueOf<Key>) => {
    built++;
    return drizzle
      .select(fields(things, { thing: "id" }))
      .from(things)
      .where(ofKey(value));
  });
  expect(built).toBe(0);
  count({ appId: "app", id: "one" });
  count({ appId: "app", id: "two" });
  expect(built).toBe(1);
});

it("a statement from Drizzle's builder is not marked as a read when it writes", () => {
  const close = query((value: ValueOf<Key>) =>
    drizzle.update(things).set({ isOpen: false }).where(ofKey(value)).returning(fields(things, "isOpen")),
  );
  const { text, params, isRead, map } = close({ appId: "app", id: "one" });
  expect(text).toBe(
    'update "things" set "is_open" = 0 where ("things"."app_id" = ? and "things"."id" = ?)' +
      ' returning "things"."is_open" as "isOpen"',
  );
  expect(params).toEqual(["app", "one"]);
  expect(isRead).toBe(false);
  expect(map?.([{ isOpen: 0 }])).toEqual([{ isOpen: false }]);
});

it("a statement from Drizzle's builder stores booleans, JSON and null as their columns do", () => {
  const insert = query((value: ValueOf<Key & { rules: readonly string[] | null; isOpen: boolean }>) =>
    drizzle.insert(things).values({
      appId: value("appId"),
      id: value("id"),
      rules: value("rules"),
      isOpen: value("isOpen", things.isOpen),
      madeMs: 5,
    }),
  );
  expect(insert({ appId: "app", id: "one", rules: ["a"], isOpen: true }).params).toEqual(["app", "one", '["a"]', 1]);
  expect(insert({ appId: "app", id: "one", rules: null, isOpen: false }).params).toEqual(["app", "one", null, 0]);
});

it("a statement from Drizzle's builder has its constants in its text, so that SQLite uses a partial index and prepares the statement once", () => {
  const find = query((value: ValueOf<{ appId: string; most: number }>) =>
    drizzle
      .select(fields(things, "id"))
      .from(things)
      .where(and(eq(things.appId, value("appId")), eq(things.isOpen, true), eq(things.id, "it's")))
      .limit(boundLimit(value("most"))),
  );
  const { text, params } = find({ appId: "app", most: 7 });
  expect(text).toContain(`"things"."is_open" = 1 and "things"."id" = 'it''s'`);
  expect(text).toContain("limit CAST(? AS INTEGER)");
  expect(params).toEqual(["app", 7]);
  expect(query(() => drizzle.select(fields(things, "id")).from(things).limit(3))({}).text).toContain("limit 3");
});

it("a statement from Drizzle's builder cannot be sent by Drizzle", async () => {
  await expect(drizzle.select(fields(things, "id")).from(things)).rejects.toThrow();
});

it("query throws for a missing or undefined value", () => {
  const find = query((value: ValueOf<Key>) => drizzle.select(fields(things, "id")).from(things).where(ofKey(value)));
  expect(() => find({ appId: "app" } as Key)).toThrow("without its id");
  expect(() => find({ appId: "app", id: undefined } as unknown as Key)).toThrow("without its id");
});

it("query throws for a value that D1 does not accept and whose column was not given", () => {
  const find = query((value: ValueOf<{ isOpen: boolean }>) =>
    drizzle
      .select(fields(things, "id"))
      .from(things)
      .where(eq(things.isOpen, value("isOpen"))),
  );
  expect(() => find({ isOpen: true })).toThrow("boolean");
});

it("query throws for the 101st value", () => {
  const of = (count: number) =>
    query(
      (value: ValueOf<Record<string, number>>) =>
        sql`SELECT ${sql.join(
          Array.from({ length: count }, (_, at) => sql`${value(`n${at}`)}`),
          sql`, `,
        )}`,
    );
  const values = Object.fromEntries(Array.from({ length: 101 }, (_, at) => [`n${at}`, at]));
  expect(of(100)(values).params.length).toBe(100);
  expect(() => of(101)(values)).toThrow("101");
});

it("query throws for two columns of the same name, which D1's batch would merge", () => {
  const find = query(() => drizzle.select({ one: sql`1`.as("same"), two: sql`2`.as("same") }).from(things));
  expect(() => find({})).toThrow("same");
});

it("query throws for a column without a name of its own", () => {
  expect(() => query(() => drizzle.select({ id: things.id }).from(things))({})).toThrow("fields");
  expect(() => query(() => drizzle.select().from(things))({})).toThrow("fields");
});

it("query throws for a selected expression that names columns of two tables at its top level, which would lose their tables", () => {
  const parts = alias(things, "parts");
  const count = sql<number>`(SELECT count(*) FROM ${things} AS ${parts} WHERE ${parts.appId} = ${things.appId})`;
  expect(() => query(() => drizzle.select({ count: count.as("count") }).from(things))({})).toThrow("count");
  const { text } = query(() => drizzle.select(computed({ count })).from(things))({});
  expect(text).toBe(
    'select (SELECT count(*) FROM "things" AS "parts" WHERE "parts"."app_id" = "things"."app_id") as "count" from "things"',
  );
});

it("query throws for a write marked as a read, which could be sent before the key's check", () => {
  const hidden = query(() => read(fields(things, "id"), (list) => sql`DELETE FROM ${things} RETURNING ${list}`));
  expect(() => hidden({})).toThrow("Not a read");
  const named = query(() => read(computed({ update: sql<string>`'insert'` }), (list) => sql`SELECT ${list}`));
  expect(named({}).text).toBe(`SELECT 'insert' AS "update"`);
});

it("a selected expression keeps the names of its tables and its decoder, in a select list and in RETURNING", () => {
  const isNew = () => sql`${things.madeMs} > 5`.mapWith(Boolean);
  const { text, map } = query(() => drizzle.select(computed({ isNew: isNew() })).from(things))({});
  expect(text).toBe('select "things"."made_ms" > 5 as "isNew" from "things"');
  expect(map?.([{ isNew: 1 }, { isNew: 0 }])).toEqual([{ isNew: true }, { isNew: false }]);
  const removed = query(() => drizzle.delete(things).returning(computed({ isNew: isNew() })))({});
  expect(removed.text).toBe('delete from "things" returning "things"."made_ms" > 5 as "isNew"');
});

it("a selected expression can be a subquery of one field", () => {
  const first = () =>
    scalar(drizzle.select(fields(parts, "thingId")).from(parts).where(eq(parts.appId, things.appId)).limit(1));
  const find = query(() => drizzle.select(computed({ first: first() })).from(things));
  expect(find({}).text).toBe(
    'select (select "parts"."thing_id" as "thingId" from "parts" where "parts"."app_id" = "things"."app_id" limit 1)' +
      ' as "first" from "things"',
  );
  expectTypeOf(find).returns.toEqualTypeOf<Statement<{ first: string | null }>>();
});

it("a statement in `sql` decodes rows by its fields", () => {
  const find = query((value: ValueOf<{ appId: string }>) =>
    read(
      { ...fields(things, "id", "isOpen"), ...computed({ times: sql<number>`count(*) OVER ()` }) },
      (list) => sql`SELECT ${list} FROM ${things} WHERE ${things.appId} IS ${value("appId")}`,
    ),
  );
  const { text, params, isRead, map } = find({ appId: "app" });
  expect(text).toBe(
    'SELECT "things"."id" AS "id", "things"."is_open" AS "isOpen", count(*) OVER () AS "times" FROM "things"' +
      ' WHERE "things"."app_id" IS ?',
  );
  expect(params).toEqual(["app"]);
  expect(isRead).toBe(true);
  expect(map?.([{ id: "one", isOpen: 1, times: 2 }])).toEqual([{ id: "one", isOpen: true, times: 2 }]);
  expectTypeOf(find).returns.toEqualTypeOf<Statement<{ id: string; isOpen: boolean; times: number }>>();
});

it("a statement in `sql` returns the rows of pages as lists, with generated column names", () => {
  const page = query(() =>
    readArrays(
      [sql<string>`${things.id}`, sql<number>`${things.madeMs}`],
      (list) => sql`SELECT ${list} FROM ${things}`,
    ),
  );
  expect(page({}).text).toBe('SELECT "things"."id" AS "column0", "things"."made_ms" AS "column1" FROM "things"');
  expect(page({}).map).toBeUndefined();
  expectTypeOf(page).returns.toEqualTypeOf<Statement<[string, number]>>();
});

it("a statement in `sql` returns the rows of a write", () => {
  const close = query((value: ValueOf<Key>) =>
    returning(
      fields(things, "isOpen"),
      (list) =>
        sql`UPDATE ${things} SET ${assignments(things, { isOpen: sql`1 - ${things.isOpen}` })} WHERE ${ofKey(value)} RETURNING ${list}`,
    ),
  );
  const { text, isRead } = close({ appId: "app", id: "one" });
  expect(text).toBe(
    'UPDATE "things" SET "is_open" = 1 - "things"."is_open" WHERE ("things"."app_id" = ? and "things"."id" = ?)' +
      ' RETURNING "things"."is_open" AS "isOpen"',
  );
  expect(isRead).toBe(false);
});

it("a statement in `sql` returns nothing without fields", () => {
  const touch = query((value: ValueOf<Key>) => sql`DELETE FROM ${things} WHERE ${ofKey(value)}`);
  expectTypeOf(touch).returns.toEqualTypeOf<Statement<never>>();
  expect(touch({ appId: "app", id: "one" })).toEqual({
    text: 'DELETE FROM "things" WHERE ("things"."app_id" = ? and "things"."id" = ?)',
    params: ["app", "one"],
    isRead: false,
  });
});

it("INSERT … SELECT names the columns of its fields, in any order, and leaves the other columns their defaults", () => {
  const insert = query((value: ValueOf<Key>) =>
    insertFrom(
      things,
      { madeMs: sql`5`, id: value("id"), appId: value("appId") },
      sql`WHERE ${notExists(drizzle.select({ one: sql`1` }).from(things).where(ofKey(value)))}`,
    ),
  );
  const { text, params } = insert({ appId: "app", id: "one" });
  expect(text).toBe(
    'INSERT INTO "things" ("made_ms", "id", "app_id") SELECT 5, ?, ? WHERE not exists' +
      ' (select 1 from "things" where ("things"."app_id" = ? and "things"."id" = ?))',
  );
  expect(params).toEqual(["one", "app", "app", "one"]);
});

it("INSERT … SELECT is a type error without a required column, and with an unknown column", () => {
  // @ts-expect-error madeMs is missing
  insertFrom(things, { id: sql`1`, appId: sql`1` }, sql``);
  expect(() =>
    // @ts-expect-error there is no such column
    insertFrom(things, { id: sql`1`, appId: sql`1`, madeMs: sql`1`, more: sql`1` }, sql``),
  ).toThrow("column");
});

it("INSERT … SELECT names the columns of an upsert without their table", () => {
  const insert = sql`${insertFrom(things, { id: sql`1`, appId: sql`2`, madeMs: sql`3` }, sql`WHERE 1`)}
      ON CONFLICT (${names(things.appId, things.id)}) DO UPDATE SET ${assignments(things, { madeMs: sql`${things.madeMs} + 1` })}`;
  expect(query(() => insert)({}).text.replace(/\s+/g, " ")).toBe(
    'INSERT INTO "things" ("id", "app_id", "made_ms") SELECT 1, 2, 3 WHERE 1' +
      ' ON CONFLICT ("app_id", "id") DO UPDATE SET "made_ms" = "things"."made_ms" + 1',
  );
});

it("a query can return whether a row exists", () => {
  const find = query((value: ValueOf<Key>) =>
    read(
      computed({
        isThere: sql`${exists(drizzle.select({ one: sql`1` }).from(things).where(ofKey(value)))}`.mapWith(Boolean),
      }),
      (list) => sql`SELECT ${list}`,
    ),
  );
  expect(find({ appId: "app", id: "one" }).map?.([{ isThere: 1 }])).toEqual([{ isThere: true }]);
});

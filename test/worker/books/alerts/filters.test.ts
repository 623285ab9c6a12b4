import { env } from "cloudflare:workers";
import { sql } from "drizzle-orm";
import fc from "fast-check";
import { expect, it } from "vitest";
import { type MatchRule, passesFilter, rulesPassFilter } from "../../../../src/books/amounts/match.ts";
import { computed, query, read, type ValueOf } from "../../../../src/db/query.ts";
import { openSession } from "../../../../src/db/session.ts";
import { all } from "../../../../src/db/sql.ts";

type Case = readonly [filter: string, rules: readonly MatchRule[]];

const judgeCases = query((value: ValueOf<{ cases: string }>) =>
  read(
    computed({ passes: passesFilter(sql`l.filter`, sql`l.rules`).mapWith(Boolean) }),
    (list) => sql`SELECT ${list} FROM (
      SELECT key, value ->> 0 AS filter, value ->> 1 AS rules FROM json_each(${value("cases")})
    ) AS l ORDER BY l.key`,
  ),
);

/** The database's result for each case, in one query. */
async function judge(cases: readonly Case[]): Promise<unknown[]> {
  const written = cases.map(([filter, rules]) => [filter, JSON.stringify(rules)]);
  const rows = await all(openSession(env.DB, "first-primary"), judgeCases({ cases: JSON.stringify(written) }));
  return rows.map(({ passes }) => passes);
}

const short = (alphabet: string, maxLength: number) =>
  fc.array(fc.constantFrom(...alphabet), { minLength: 1, maxLength }).map((characters) => characters.join(""));

it("the database filters balances for an alert exactly as a list does (C4)", async () => {
  const glob = fc.oneof(short("ab*", 8), short("*ab", 3), short(`a*é😀"\\'?[%_`, 6));
  const rule = fc.oneof(
    fc.record({ event: glob }),
    fc.record({ model: fc.constant("m") }),
    fc.record({ event: glob, model: fc.constant("*") }),
  );
  const cases = fc.sample(fc.tuple(glob, fc.array(rule, { maxLength: 2 })), 3_000);
  const results = await judge(cases);
  for (const [index, [filter, rules]] of cases.entries()) {
    expect(results[index], JSON.stringify({ filter, rules })).toBe(rulesPassFilter(rules, filter));
  }
});

it("the database filters by the longest allowed globs exactly as a list does", async () => {
  const events = [
    `${"*a".repeat(99)}*b`,
    "*".repeat(200),
    `${"a*".repeat(99)}c`,
    "a".repeat(200),
    `${"a".repeat(199)}*`,
  ];
  const cases = events.flatMap((filter) => events.map((event): Case => [filter, [{ event }]]));
  expect(await judge(cases)).toEqual(cases.map(([filter, rules]) => rulesPassFilter(rules, filter)));
});

import { env } from "cloudflare:workers";
import fc from "fast-check";
import { expect, it } from "vitest";
import { passesFilterSql } from "../../../../src/books/amounts/filter-sql.ts";
import { type MatchRule, rulesPassFilter } from "../../../../src/books/amounts/match.ts";

type Case = readonly [filter: string, rules: readonly MatchRule[]];

/** What the database says of each, in one query. */
async function judge(cases: readonly Case[]): Promise<boolean[]> {
  const written = cases.map(([filter, rules]) => [filter, JSON.stringify(rules)]);
  const { results } = await env.DB.prepare(
    `SELECT ${passesFilterSql("l.filter", "l.rules")} AS passes
     FROM (SELECT key, value ->> 0 AS filter, value ->> 1 AS rules FROM json_each(?)) AS l ORDER BY l.key`,
  )
    .bind(JSON.stringify(written))
    .all<{ passes: 0 | 1 }>();
  return results.map(({ passes }) => passes === 1);
}

const short = (alphabet: string, maxLength: number) =>
  fc.array(fc.constantFrom(...alphabet), { minLength: 1, maxLength }).map((characters) => characters.join(""));

it("judges the filters of alerts in the database as lists are filtered (C4)", async () => {
  const glob = fc.oneof(short("ab*", 8), short("*ab", 3), short(`a*é😀"\\'?[%_`, 6));
  const rule = fc.oneof(
    fc.record({ event: glob }),
    fc.record({ model: fc.constant("m") }),
    fc.record({ event: glob, model: fc.constant("*") }),
  );
  const cases = fc.sample(fc.tuple(glob, fc.array(rule, { maxLength: 2 })), 3_000);
  const said = await judge(cases);
  for (const [index, [filter, rules]] of cases.entries()) {
    expect(said[index], JSON.stringify({ filter, rules })).toBe(rulesPassFilter(rules, filter));
  }
});

it("and says the same of the longest globs that are let in, in no time", async () => {
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

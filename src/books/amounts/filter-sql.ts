import { type SQL, type SQLWrapper, sql } from "drizzle-orm";
import type { SQLiteColumn } from "drizzle-orm/sqlite-core";
import type { Unit } from "./amount.ts";

/** A text in SQL. It has no bound values, because the conditions repeat it many times. */
type Text = SQL | SQLiteColumn;

/** Returns the parts of a glob between its stars, as JSON. */
const partsOf = (glob: Text): SQL => sql`('[' || replace(json_quote(${glob}), '*', '","') || ']')`;

/** Returns whether a glob with a star matches a name. Searches each part after the end of the part before. */
const globMatchesSql = (glob: Text, name: Text): SQL => sql`EXISTS (
  WITH RECURSIVE
    g (parts, named) AS (SELECT ${partsOf(glob)}, ${name}),
    step (i, remainder) AS (
      SELECT 1, substr(g.named, length(g.parts ->> 0) + 1) FROM g
      WHERE substr(g.named, 1, length(g.parts ->> 0)) = g.parts ->> 0
      UNION ALL
      SELECT i + 1, substr(remainder, instr(remainder, g.parts ->> i) + length(g.parts ->> i)) FROM step CROSS JOIN g
      WHERE i < json_array_length(g.parts) - 1 AND instr(remainder, g.parts ->> i) > 0
    )
  SELECT 1 FROM step CROSS JOIN g
  WHERE i = json_array_length(g.parts) - 1 AND length(remainder) >= length(g.parts ->> i)
    AND substr(remainder, length(remainder) - length(g.parts ->> i) + 1) = g.parts ->> i
)`;

const shorter = (a: Text, b: Text): SQL => sql`min(length(${a}), length(${b}))`;
/** Returns whether the shorter of two texts is a prefix of the longer. */
const beginAlike = (a: Text, b: Text): SQL =>
  sql`substr(${a}, 1, ${shorter(a, b)}) = substr(${b}, 1, ${shorter(a, b)})`;
/** Returns the end of a text, as long as the shorter of two texts. */
const tail = (a: Text, b: Text): SQL => sql`substr(${a}, length(${a}) - ${shorter(a, b)} + 1)`;

const hasStar = (text: Text): SQL => sql`instr(${text}, '*') > 0`;

/** Returns whether some name matches both texts, each a name or a glob. It is `globsMeet` in SQL. */
export const meet = (a: Text, b: Text): SQL => {
  const [headA, headB] = [sql`(${partsOf(a)} ->> 0)`, sql`(${partsOf(b)} ->> 0)`];
  const [tailA, tailB] = [sql`(${partsOf(a)} ->> '$[#-1]')`, sql`(${partsOf(b)} ->> '$[#-1]')`];
  const [withStar, other] = [sql`iif(${hasStar(a)}, ${a}, ${b})`, sql`iif(${hasStar(a)}, ${b}, ${a})`];
  return sql`(${a} = ${b} OR iif(${hasStar(a)} AND ${hasStar(b)},
    ${beginAlike(headA, headB)} AND ${tail(tailA, tailB)} = ${tail(tailB, tailA)},
    (${hasStar(a)} OR ${hasStar(b)}) AND ${globMatchesSql(withStar, other)}))`;
};

/** Returns whether the `event` filter of a list includes a balance with these rules (C4). It is `rulesPassFilter` in SQL. */
export const passesFilter = (filter: Text, rules: Text): SQL => sql`(${rules} = '[]' OR EXISTS (
  SELECT 1 FROM (SELECT value ->> 'event' AS glob FROM json_each(${rules})) AS rule
  WHERE rule.glob IS NULL OR ${meet(filter, sql`rule.glob`)}
))`;

/**
 * Returns SQL that writes steps of a unit as a decimal text, which is JSON, as `fromSteps` does. It writes digit by digit,
 * because SQLite does not print doubles exactly.
 */
export function amountJson(steps: SQLWrapper, unit: Unit | SQLWrapper): SQL {
  const digits =
    typeof unit === "string"
      ? digitsOf(steps, unit === "cents")
      : sql`iif(${unit} = 'cents', ${digitsOf(steps, true)}, ${digitsOf(steps, false)})`;
  return sql`iif(${steps} < 0, '-', '') || rtrim(rtrim(${digits}, '0'), '.')`;
}

// The divisors are literals in the SQL: bound numbers are REAL, and would divide as REAL.
const digitsOf = (steps: SQLWrapper, isCents: boolean): SQL =>
  isCents
    ? sql`printf('%d.%06d', abs(${steps}) / 1000000, abs(${steps}) % 1000000)`
    : sql`printf('%d.%03d', abs(${steps}) / 1000, abs(${steps}) % 1000)`;

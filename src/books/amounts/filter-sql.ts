import { type SQL, sql } from "drizzle-orm";
import type { SQLiteColumn } from "drizzle-orm/sqlite-core";
import { fragment } from "../../db/sql.ts";

/** A text in SQL. It has no values, because it stands in the conditions many times. */
type Text = SQL | SQLiteColumn;

/** The parts of a glob between its stars, as JSON. */
const partsOf = (glob: Text): SQL => sql`('[' || replace(json_quote(${glob}), '*', '","') || ']')`;

/** Whether a glob with a star matches a name: each part is sought behind the one before it. */
const globMatches = (glob: Text, name: Text): SQL => sql`EXISTS (
  WITH RECURSIVE
    g (parts, named) AS (SELECT ${partsOf(glob)}, ${name}),
    step (i, rest) AS (
      SELECT 1, substr(g.named, length(g.parts ->> 0) + 1) FROM g
      WHERE substr(g.named, 1, length(g.parts ->> 0)) = g.parts ->> 0
      UNION ALL
      SELECT i + 1, substr(rest, instr(rest, g.parts ->> i) + length(g.parts ->> i)) FROM step CROSS JOIN g
      WHERE i < json_array_length(g.parts) - 1 AND instr(rest, g.parts ->> i) > 0
    )
  SELECT 1 FROM step CROSS JOIN g
  WHERE i = json_array_length(g.parts) - 1 AND length(rest) >= length(g.parts ->> i)
    AND substr(rest, length(rest) - length(g.parts ->> i) + 1) = g.parts ->> i
)`;

const shorter = (a: Text, b: Text): SQL => sql`min(length(${a}), length(${b}))`;
/** Of two texts, whether the shorter is the beginning of the longer. */
const beginAlike = (a: Text, b: Text): SQL =>
  sql`substr(${a}, 1, ${shorter(a, b)}) = substr(${b}, 1, ${shorter(a, b)})`;
/** The end of a text that is as long as the shorter of two. */
const tail = (a: Text, b: Text): SQL => sql`substr(${a}, length(${a}) - ${shorter(a, b)} + 1)`;

const hasStar = (text: Text): SQL => sql`instr(${text}, '*') > 0`;

/** Whether some name matches both, each a name or a glob: `globsMeet`, in the database. */
export const meet = (a: Text, b: Text): SQL => {
  const [headA, headB] = [sql`(${partsOf(a)} ->> 0)`, sql`(${partsOf(b)} ->> 0)`];
  const [tailA, tailB] = [sql`(${partsOf(a)} ->> '$[#-1]')`, sql`(${partsOf(b)} ->> '$[#-1]')`];
  const [withStar, other] = [sql`iif(${hasStar(a)}, ${a}, ${b})`, sql`iif(${hasStar(a)}, ${b}, ${a})`];
  return sql`(${a} = ${b} OR iif(${hasStar(a)} AND ${hasStar(b)},
    ${beginAlike(headA, headB)} AND ${tail(tailA, tailB)} = ${tail(tailB, tailA)},
    (${hasStar(a)} OR ${hasStar(b)}) AND ${globMatches(withStar, other)}))`;
};

/** Whether the `event` filter of a list includes a balance with these rules (C4): `rulesPassFilter`, in the database. */
export const passesFilter = (filter: Text, rules: Text): SQL => sql`(${rules} = '[]' OR EXISTS (
  SELECT 1 FROM (SELECT value ->> 'event' AS glob FROM json_each(${rules})) AS rule
  WHERE rule.glob IS NULL OR ${meet(filter, sql`rule.glob`)}
))`;

// The same for statements that are not of Drizzle yet.

/** The parts of a glob between its stars, as JSON. */
const partsOfSql = (glob: string): string => fragment`('[' || replace(json_quote(${glob}), '*', '","') || ']')`;

/** Whether a glob with a star matches a name: each part is sought behind the one before it. */
const globMatchesSql = (glob: string, name: string): string => fragment`EXISTS (
  WITH RECURSIVE
    g (parts, name) AS (SELECT ${partsOfSql(glob)}, ${name}),
    step (i, rest) AS (
      SELECT 1, substr(g.name, length(g.parts ->> 0) + 1) FROM g
      WHERE substr(g.name, 1, length(g.parts ->> 0)) = g.parts ->> 0
      UNION ALL
      SELECT i + 1, substr(rest, instr(rest, g.parts ->> i) + length(g.parts ->> i)) FROM step CROSS JOIN g
      WHERE i < json_array_length(g.parts) - 1 AND instr(rest, g.parts ->> i) > 0
    )
  SELECT 1 FROM step CROSS JOIN g
  WHERE i = json_array_length(g.parts) - 1 AND length(rest) >= length(g.parts ->> i)
    AND substr(rest, length(rest) - length(g.parts ->> i) + 1) = g.parts ->> i
)`;

/** Of two texts, whether the shorter is the beginning of the longer. */
const beginAlikeSql = (a: string, b: string): string =>
  fragment`substr(${a}, 1, min(length(${a}), length(${b}))) = substr(${b}, 1, min(length(${a}), length(${b})))`;
const tailSql = (a: string, b: string): string =>
  fragment`substr(${a}, length(${a}) - min(length(${a}), length(${b})) + 1)`;

const hasStarSql = (text: string): string => fragment`instr(${text}, '*') > 0`;

/** SQL: whether some name matches both, each a name or a glob: `globsMeet`, in the database. */
export const meetSql = (a: string, b: string): string => {
  const [headA, headB] = [fragment`(${partsOfSql(a)} ->> 0)`, fragment`(${partsOfSql(b)} ->> 0)`];
  const [tailA, tailB] = [fragment`(${partsOfSql(a)} ->> '$[#-1]')`, fragment`(${partsOfSql(b)} ->> '$[#-1]')`];
  return fragment`(${a} = ${b} OR iif(${hasStarSql(a)} AND ${hasStarSql(b)},
    ${beginAlikeSql(headA, headB)} AND ${tailSql(tailA, tailB)} = ${tailSql(tailB, tailA)},
    (${hasStarSql(a)} OR ${hasStarSql(b)})
      AND ${globMatchesSql(fragment`iif(${hasStarSql(a)}, ${a}, ${b})`, fragment`iif(${hasStarSql(a)}, ${b}, ${a})`)}))`;
};

import { fragment } from "../../db/sql.ts";

/** The parts of a glob between its stars, as JSON. */
const partsOf = (glob: string): string => fragment`('[' || replace(json_quote(${glob}), '*', '","') || ']')`;

/** Whether a glob with a star matches a name: each part is sought behind the one before it. */
const globMatchesSql = (glob: string, name: string): string => fragment`EXISTS (
  WITH RECURSIVE
    g (parts, name) AS (SELECT ${partsOf(glob)}, ${name}),
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
const beginAlike = (a: string, b: string): string =>
  fragment`substr(${a}, 1, min(length(${a}), length(${b}))) = substr(${b}, 1, min(length(${a}), length(${b})))`;
const tail = (a: string, b: string): string =>
  fragment`substr(${a}, length(${a}) - min(length(${a}), length(${b})) + 1)`;

const hasStar = (text: string): string => fragment`instr(${text}, '*') > 0`;

/** SQL: whether some name matches both, each a name or a glob: `globsMeet`, in the database. */
export const meetSql = (a: string, b: string): string => {
  const [headA, headB] = [fragment`(${partsOf(a)} ->> 0)`, fragment`(${partsOf(b)} ->> 0)`];
  const [tailA, tailB] = [fragment`(${partsOf(a)} ->> '$[#-1]')`, fragment`(${partsOf(b)} ->> '$[#-1]')`];
  return fragment`(${a} = ${b} OR iif(${hasStar(a)} AND ${hasStar(b)},
    ${beginAlike(headA, headB)} AND ${tail(tailA, tailB)} = ${tail(tailB, tailA)},
    (${hasStar(a)} OR ${hasStar(b)})
      AND ${globMatchesSql(fragment`iif(${hasStar(a)}, ${a}, ${b})`, fragment`iif(${hasStar(a)}, ${b}, ${a})`)}))`;
};

/** SQL: whether the `event` filter of a list includes a balance with these rules (C4): `rulesPassFilter`, in the database. */
export const passesFilterSql = (filter: string, rules: string): string => fragment`(${rules} = '[]' OR EXISTS (
  SELECT 1 FROM (SELECT value ->> 'event' AS event FROM json_each(${rules})) AS rule
  WHERE rule.event IS NULL OR ${meetSql(filter, "rule.event")}
))`;

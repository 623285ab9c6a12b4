import { type SQL, sql } from "drizzle-orm";
import type { SQLiteColumn } from "drizzle-orm/sqlite-core";

/** Match rules (C2 to C4). In a glob, `*` matches any characters, and every other character matches itself. */
export interface MatchRule {
  readonly event?: string | undefined;
  readonly model?: string | undefined;
}

const NO_RULES: readonly MatchRule[] = [];

/** A cache of parsed lists by their text, because balances of one pack share their rules. */
const readLists = new Map<string, readonly MatchRule[]>();
const READ_CHARACTERS_MAX = 200_000;
let readCharacters = 0;

/** Returns whether a stored list has rules. */
export const hasRules = (stored: string): boolean => stored !== "[]";

/** Reads stored rules: JSON that Purser wrote from a validated list. Returns the same list for the same text. */
export function readStoredRules(stored: string): readonly MatchRule[] {
  if (!hasRules(stored)) return NO_RULES;
  const known = readLists.get(stored);
  if (known !== undefined) return known;
  if (readCharacters > READ_CHARACTERS_MAX) {
    readLists.clear();
    readCharacters = 0;
  }
  const rules = JSON.parse(stored) as MatchRule[];
  readLists.set(stored, rules);
  readCharacters += stored.length;
  return rules;
}

interface Verdict {
  readonly event: string;
  readonly model: string | undefined;
  readonly covers: boolean;
}
/** The latest verdict for each list, so that balances with the same list do not evaluate an event again. */
const verdicts = new WeakMap<readonly MatchRule[], Verdict>();

/** Returns the failure function of `part` (Knuth, Morris and Pratt). */
function fallbacks(part: string): number[] {
  const table = [0];
  for (let index = 1, length = 0; index < part.length; index++) {
    while (length > 0 && part[index] !== part[length]) length = table[length - 1] ?? 0;
    if (part[index] === part[length]) length++;
    table.push(length);
  }
  return table;
}

/** Returns `text.indexOf(part, from)` in linear time. The built-in search may take the product of the lengths. */
function createSearch(part: string): (text: string, from: number) => number {
  // The built-in search for one character takes linear time, and needs no table.
  if (part.length <= 1) return (text, from) => text.indexOf(part, from);
  const table = fallbacks(part);
  return (text, from) => {
    for (let index = from, length = 0; index < text.length; index++) {
      while (length > 0 && text[index] !== part[length]) length = table[length - 1] ?? 0;
      if (text[index] === part[length]) length++;
      if (length === part.length) return index + 1 - length;
    }
    return -1;
  };
}

/** Returns a function that tests whether a name matches a glob. The glob is prepared once, for many names. */
export function globTest(glob: string): (name: string) => boolean {
  const [first = "", ...parts] = glob.split("*");
  const last = parts.pop();
  if (last === undefined) return (name) => name === glob;
  let inner: { readonly length: number; readonly search: ReturnType<typeof createSearch> }[] | null = null;
  return (name) => {
    if (!name.startsWith(first)) return false;
    inner ??= parts.map((part) => ({ length: part.length, search: createSearch(part) }));
    let position = first.length;
    for (const { length, search } of inner) {
      const found = search(name, position);
      if (found === -1) return false;
      position = found + length;
    }
    return name.length - last.length >= position && name.endsWith(last);
  };
}

/** Returns whether the glob matches the whole name, code unit by code unit. Takes linear time. */
export function globMatches(glob: string, name: string): boolean {
  return globTest(glob)(name);
}

/**
 * Returns whether some name matches both globs, in linear time. If both have a star, only the texts before the first star and
 * after the last star matter, because a star can match everything that the other glob has in between.
 */
export function globsMeet(a: string, b: string): boolean {
  if (!a.includes("*")) return globMatches(b, a);
  if (!b.includes("*")) return globMatches(a, b);
  const [headA, headB] = [a.slice(0, a.indexOf("*")), b.slice(0, b.indexOf("*"))];
  const [tailA, tailB] = [a.slice(a.lastIndexOf("*") + 1), b.slice(b.lastIndexOf("*") + 1)];
  return (headA.startsWith(headB) || headB.startsWith(headA)) && (tailA.endsWith(tailB) || tailB.endsWith(tailA));
}

type RulesTest = (event: string, model: string | undefined) => boolean;

function rulesTest(rules: readonly MatchRule[]): RulesTest {
  const tests = rules.map(({ event, model }) => ({
    event: event === undefined ? null : globTest(event),
    model: model === undefined ? null : globTest(model),
  }));
  return (event, model) =>
    tests.some(
      (test) =>
        (test.event === null || test.event(event)) &&
        (test.model === null || (model !== undefined && test.model(model))),
    );
}

const prepared = new WeakMap<readonly MatchRule[], RulesTest>();

/**
 * Returns whether a balance with these rules pays for the event: it has no rules, or one rule matches in each of its fields.
 * Caches the prepared list, so the list must not change.
 */
export function rulesCover(rules: readonly MatchRule[], event: string, model: string | undefined): boolean {
  if (rules.length === 0) return true;
  const latest = verdicts.get(rules);
  if (latest !== undefined && latest.event === event && latest.model === model) return latest.covers;
  const test = prepared.get(rules) ?? rulesTest(rules);
  prepared.set(rules, test);
  const covers = test(event, model);
  verdicts.set(rules, { event, model, covers });
  return covers;
}

/** Returns whether the `event` filter of a list includes a balance with these rules. Ignores models (C4). */
export function rulesPassFilter(rules: readonly MatchRule[], filter: string): boolean {
  if (rules.length === 0) return true;
  return rules.some((rule) => rule.event === undefined || globsMeet(filter, rule.event));
}

/** Returns whether the `event` filter of the usage totals, a name or a glob, matches an event's name (C4). */
export function filterCovers(filter: string, event: string): boolean {
  return filter.includes("*") ? globMatches(filter, event) : filter === event;
}

/** A text in SQL. It has no bound values, because the conditions repeat it many times. */
type Text = SQL | SQLiteColumn;

/** Returns the parts of a glob between its stars, as JSON. */
const splitGlob = (glob: Text): SQL => sql`('[' || replace(json_quote(${glob}), '*', '","') || ']')`;

/** Returns whether a glob with a star matches a name. Searches each part after the end of the previous part. */
const globMatchesSql = (glob: Text, name: Text): SQL => sql`EXISTS (
  WITH RECURSIVE
    g (parts, named) AS (SELECT ${splitGlob(glob)}, ${name}),
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
  const [headA, headB] = [sql`(${splitGlob(a)} ->> 0)`, sql`(${splitGlob(b)} ->> 0)`];
  const [tailA, tailB] = [sql`(${splitGlob(a)} ->> '$[#-1]')`, sql`(${splitGlob(b)} ->> '$[#-1]')`];
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

/** Returns a rule in words, to follow "pays for". */
export function ruleInWords({ event, model }: MatchRule): string {
  const parts = [event === undefined ? "" : `event \`${event}\``, model === undefined ? "" : `model \`${model}\``];
  return parts.filter((part) => part !== "").join(" with ");
}

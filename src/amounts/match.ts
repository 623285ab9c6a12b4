/** Match rules (C2 to C4). In a glob, `*` matches any characters, and every other character matches itself. */
export interface MatchRule {
  readonly event?: string | undefined;
  readonly model?: string | undefined;
}

const NO_RULES: readonly MatchRule[] = [];

/** Reads stored rules: JSON that Purser wrote from a validated list. */
export function readRules(stored: string): readonly MatchRule[] {
  return stored === "[]" ? NO_RULES : (JSON.parse(stored) as MatchRule[]);
}

/** The failure function of `part`, as in the algorithm of Knuth, Morris and Pratt. */
function fallbacks(part: string): number[] {
  const table = [0];
  for (let index = 1, length = 0; index < part.length; index++) {
    while (length > 0 && part[index] !== part[length]) length = table[length - 1] ?? 0;
    if (part[index] === part[length]) length++;
    table.push(length);
  }
  return table;
}

/** `text.indexOf(part, from)` in linear time. In the worst case, the built-in search takes the product of the lengths. */
function indexOfPart(text: string, part: string, from: number): number {
  if (part === "") return from;
  const table = fallbacks(part);
  for (let index = from, length = 0; index < text.length; index++) {
    while (length > 0 && text[index] !== part[length]) length = table[length - 1] ?? 0;
    if (text[index] === part[length]) length++;
    if (length === part.length) return index + 1 - length;
  }
  return -1;
}

/** Whether the glob matches the whole name, code unit by code unit. Takes linear time. */
export function globMatches(glob: string, name: string): boolean {
  const [first = "", ...rest] = glob.split("*");
  const last = rest.pop();
  if (last === undefined) return glob === name;
  if (!name.startsWith(first)) return false;
  let position = first.length;
  for (const part of rest) {
    const found = indexOfPart(name, part, position);
    if (found === -1) return false;
    position = found + part.length;
  }
  return name.length - last.length >= position && name.endsWith(last);
}

/**
 * Whether some name matches both globs. Takes linear time. If both have a star, only the texts before the first star and
 * after the last star matter, because a star can match everything that the other glob has in between.
 */
export function globsMeet(a: string, b: string): boolean {
  if (!a.includes("*")) return globMatches(b, a);
  if (!b.includes("*")) return globMatches(a, b);
  const [headA, headB] = [a.slice(0, a.indexOf("*")), b.slice(0, b.indexOf("*"))];
  const [tailA, tailB] = [a.slice(a.lastIndexOf("*") + 1), b.slice(b.lastIndexOf("*") + 1)];
  return (headA.startsWith(headB) || headB.startsWith(headA)) && (tailA.endsWith(tailB) || tailB.endsWith(tailA));
}

/** Whether a balance with these rules pays for the event: it has no rules, or one rule matches in each of its fields. */
export function rulesCover(rules: readonly MatchRule[], event: string, model: string | undefined): boolean {
  if (rules.length === 0) return true;
  return rules.some(
    (rule) =>
      (rule.event === undefined || globMatches(rule.event, event)) &&
      (rule.model === undefined || (model !== undefined && globMatches(rule.model, model))),
  );
}

/** Whether the `event` filter of a list includes a balance with these rules. Models are ignored (C4). */
export function rulesPassFilter(rules: readonly MatchRule[], filter: string): boolean {
  if (rules.length === 0) return true;
  return rules.some((rule) => rule.event === undefined || globsMeet(filter, rule.event));
}

/** Whether the `event` filter of the usage totals, a name or a glob, matches an event's name (C4). */
export function filterCovers(filter: string, event: string): boolean {
  return filter.includes("*") ? globMatches(filter, event) : filter === event;
}

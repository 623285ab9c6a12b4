/** Match rules (decisions.md, C2 to C4). In a glob `*` stands for any run of characters, all else for itself. */
export interface MatchRule {
  readonly event?: string | undefined;
  readonly model?: string | undefined;
}

const NO_RULES: readonly MatchRule[] = [];

/** Rules as they are stored: JSON that Purser wrote from a validated list. */
export function readRules(stored: string): readonly MatchRule[] {
  return stored === "[]" ? NO_RULES : (JSON.parse(stored) as MatchRule[]);
}

/** How far a failed comparison may fall back at each place of `part` (Knuth, Morris and Pratt). */
function fallbacks(part: string): number[] {
  const table = [0];
  for (let index = 1, length = 0; index < part.length; index++) {
    while (length > 0 && part[index] !== part[length]) length = table[length - 1] ?? 0;
    if (part[index] === part[length]) length++;
    table.push(length);
  }
  return table;
}

/** `text.indexOf(part, from)` in linear time; the built-in search takes the product of the lengths at its worst. */
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

/** Whether the glob covers the whole name, code unit by code unit. Linear in glob and name together. */
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
 * Whether some name matches both globs. Linear in both: where each has a star, only what stands before the first star
 * and after the last can keep them apart, since one's star may hold whatever the other has in between.
 */
export function globsMeet(a: string, b: string): boolean {
  if (!a.includes("*")) return globMatches(b, a);
  if (!b.includes("*")) return globMatches(a, b);
  const [headA, headB] = [a.slice(0, a.indexOf("*")), b.slice(0, b.indexOf("*"))];
  const [tailA, tailB] = [a.slice(a.lastIndexOf("*") + 1), b.slice(b.lastIndexOf("*") + 1)];
  return (headA.startsWith(headB) || headB.startsWith(headA)) && (tailA.endsWith(tailB) || tailB.endsWith(tailA));
}

/** Whether a balance with these rules pays for the event: one rule matches in every part it names, or there is none. */
export function rulesCover(rules: readonly MatchRule[], event: string, model: string | undefined): boolean {
  if (rules.length === 0) return true;
  return rules.some(
    (rule) =>
      (rule.event === undefined || globMatches(rule.event, event)) &&
      (rule.model === undefined || (model !== undefined && globMatches(rule.model, model))),
  );
}

/** Whether the `event` filter of list keeps a balance with these rules. Models are not considered (C4). */
export function rulesPassFilter(rules: readonly MatchRule[], filter: string): boolean {
  if (rules.length === 0) return true;
  return rules.some((rule) => rule.event === undefined || globsMeet(filter, rule.event));
}

/** Whether the `event` filter of the usage query, a name or a glob, covers the name of an event that happened (C4). */
export function filterCovers(filter: string, event: string): boolean {
  return filter.includes("*") ? globMatches(filter, event) : filter === event;
}

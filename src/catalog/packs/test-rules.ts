import { type MatchRule, rulesCover } from "../../books/amounts/match.ts";

const SEPARATORS = /[.:/_-]/g;
const PREFIXES_MAX = 10;

/** Returns globs that match a name, narrowest first: the name itself, prefixes up to one of the first separators, and `*`. */
export function suggestGlobs(name: string): string[] {
  const prefixes: string[] = [];
  for (const { index } of name.matchAll(SEPARATORS)) {
    if (prefixes.length === PREFIXES_MAX) break;
    prefixes.push(`${name.slice(0, index + 1)}*`);
  }
  return [...new Set([name, ...prefixes.toReversed(), "*"])];
}

export interface RulesVerdict {
  readonly isCovered: boolean;
  /** A sentence for the person who edits the rules. */
  readonly why: string;
}

const ruleText = (rule: MatchRule): string =>
  [rule.event === undefined ? null : `event ${rule.event}`, rule.model === undefined ? null : `model ${rule.model}`]
    .filter((part) => part !== null)
    .join(" and ");

/** Returns whether balances with these rules would pay for an event, and names the matching rule, or globs that would match. */
export function testRules(rules: readonly MatchRule[], event: string, model: string | undefined): RulesVerdict {
  if (rules.length === 0) return { isCovered: true, why: "No rules: pays for every event." };
  const covering = rules.find((rule) => rulesCover([rule], event, model));
  if (covering !== undefined) return { isCovered: true, why: `The rule for ${ruleText(covering)} matches.` };
  const byEvent = rules.find((rule) => rule.model !== undefined && rulesCover([{ event: rule.event }], event, model));
  if (byEvent !== undefined) {
    const globs = model === undefined ? null : suggestGlobs(model);
    const needed = globs === null ? "The event has no model." : `Matching models would be: ${joinGlobs(globs)}.`;
    return { isCovered: false, why: `A rule matches the event, but not its model. ${needed}` };
  }
  return { isCovered: false, why: `No rule matches. Matching rules would be: ${joinGlobs(suggestGlobs(event))}.` };
}

const joinGlobs = (globs: readonly string[]): string => globs.join(", ");

import { type MatchRule, rulesCover } from "../amounts/match.ts";
import { suggestGlobs } from "./suggest-globs.ts";

export interface Verdict {
  readonly isCovered: boolean;
  /** In words, for the person who edits the rules. */
  readonly why: string;
}

const ruleText = (rule: MatchRule): string =>
  [rule.event === undefined ? null : `event ${rule.event}`, rule.model === undefined ? null : `model ${rule.model}`]
    .filter((part) => part !== null)
    .join(" and ");

/** Whether balances with these rules would pay for an event, and which rule says so or which glob would. */
export function testRules(rules: readonly MatchRule[], event: string, model: string | undefined): Verdict {
  if (rules.length === 0) return { isCovered: true, why: "No rules: it pays for anything." };
  const covering = rules.find((rule) => rulesCover([rule], event, model));
  if (covering !== undefined) return { isCovered: true, why: `The rule for ${ruleText(covering)} covers it.` };
  const byEvent = rules.find((rule) => rule.model !== undefined && rulesCover([{ event: rule.event }], event, model));
  if (byEvent !== undefined) {
    const globs = model === undefined ? null : suggestGlobs(model);
    const needed =
      globs === null ? "the event would have to carry a model" : `the model would need ${joinGlobs(globs)}`;
    return { isCovered: false, why: `The event is covered, its model is not: ${needed}.` };
  }
  return { isCovered: false, why: `No rule covers it: the event would need ${joinGlobs(suggestGlobs(event))}.` };
}

const joinGlobs = (globs: readonly string[]): string => globs.join(" or ");

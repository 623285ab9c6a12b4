import { readFeatures } from "../../db/features.ts";
import type { Steps } from "../../db/schema.ts";
import type { Unit } from "../amounts/amount.ts";
import type { MatchRule } from "../amounts/match.ts";
import type { WindowLength } from "./window.ts";

/** A usage limit in the environment's features. */
export interface UsageLimit {
  readonly id: string;
  readonly name: string;
  /** Empty for every event. */
  readonly matches: readonly MatchRule[];
  readonly unit: Unit;
  readonly amountSteps: Steps;
  readonly every: WindowLength;
}

/** The limits from the text of an environment's features, oldest first. Equal texts give the same objects. */
export function limitsOf(features: string | null): readonly UsageLimit[] {
  // Only `syncLimits` writes this part.
  return (readFeatures(features).limits ?? []) as readonly UsageLimit[];
}

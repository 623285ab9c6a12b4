import type { MatchRule } from "../books/amounts/match.ts";

/** What a balance or pack pays for: `event`, `event · model`, or `* · model` for a rule with a model only. */
export const Rules = ({ matches }: { matches: readonly MatchRule[] }) => (
  <span class="rules">
    {matches.length === 0 && <span class="soft">all events</span>}
    {matches.map((rule) => (
      <code>
        {rule.event ?? "*"}
        {rule.model === undefined ? null : ` · ${rule.model}`}
      </code>
    ))}
  </span>
);

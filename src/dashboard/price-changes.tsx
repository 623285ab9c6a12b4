import type { RuleChange } from "../books/prices/compare-lists.ts";
import { compareLists } from "../books/prices/compare-lists.ts";
import type { CostRule, MeterPrice, PriceRule } from "../books/prices/price.ts";
import { Tag } from "./components.tsx";
import { conditionText, metersText } from "./price-draft.ts";
import { numberHead, Table } from "./table.tsx";
import { UnitLabel } from "./unit-amount.tsx";

interface ListsProps {
  readonly before: readonly (CostRule | PriceRule)[];
  readonly after: readonly (CostRule | PriceRule)[];
  readonly label: string;
}

type AnyChange = RuleChange<CostRule & { readonly unit?: string }>;

const CHANGE_TAGS = { added: "active", removed: "revoked", changed: "open", moved: "depleted" } as const;

const oneText = (price: MeterPrice | null): string =>
  price === null ? "none" : typeof price === "number" ? `${price}` : `${price.amount} for ${price.units}`;

/** Returns the change of a price in percent, if both are for the same number of units. */
function percentText(before: MeterPrice | null, after: MeterPrice | null): string {
  if (before === null || after === null) return "";
  const [from, to] = [before, after].map((price) =>
    typeof price === "number" ? { amount: price, units: 1 } : { amount: price.amount, units: price.units },
  );
  if (from === undefined || to === undefined || from.units !== to.units || from.amount === 0) return "";
  const change = to.amount - from.amount;
  if (change === 0) return "";
  const percent = Math.round((1_000 * Math.abs(change)) / from.amount) / 10;
  return ` (${change > 0 ? "+" : "−"}${percent === 0 ? "under 0.1" : percent} %)`;
}

const placeText = (place: number | null): string => (place === null ? "" : `${place + 1}`);

/** Says what a rule costs, or how its prices changed. */
const pricesText = ({ kind, rule, prices }: AnyChange): string => {
  if (kind === "moved") return "the same prices";
  if (kind !== "changed") {
    const flat = rule.perEvent === undefined ? [] : [`${rule.perEvent} an event`];
    return [...flat, ...(rule.per === undefined ? ["any meters"] : [metersText(rule.per)])].join(", ");
  }
  return prices
    .map(({ name, before, after }) => {
      const change = `${oneText(before)} → ${oneText(after)}${percentText(before, after)}`;
      return `${name ?? "an event"}: ${change}`;
    })
    .join(", ");
};

/** Shows how one list became another, rule by rule. */
export const ListChanges = ({ before, after, label }: ListsProps) => {
  const changes: readonly AnyChange[] = compareLists<CostRule & { readonly unit?: string }>(before, after);
  return (
    <Table
      label={label}
      head={[
        ...["Change", numberHead("No. before"), numberHead("No. after")],
        ...["Event", "Model", "When", "Unit", "Prices"],
      ]}
      empty="No rule differs."
      rows={changes.map((change) => [
        <Tag kind={CHANGE_TAGS[change.kind]}>{change.kind}</Tag>,
        placeText(change.before),
        placeText(change.after),
        change.rule.event ?? "all",
        change.rule.model ?? "all",
        conditionText(change.rule.when),
        change.rule.unit === undefined ? "cents" : <UnitLabel unit={change.rule.unit} />,
        pricesText(change),
      ])}
    />
  );
};

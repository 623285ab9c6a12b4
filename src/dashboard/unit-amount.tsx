import { createContext, useContext } from "hono/jsx";
import { doubleOf, UNITS } from "../books/amounts/amount.ts";
import type { UnitNames } from "../books/prices/unit-names.ts";
import { amountText } from "./format.tsx";

/** The application's own names of units (PR7). Empty outside an application. */
export const UnitNamesContext = createContext<UnitNames["names"]>({});

/** Returns the name of a unit for an amount: `credit` for 1, `credits` otherwise. Without a name, the unit itself. */
export function unitText(names: UnitNames["names"], unit: string, amount: number | null = null): string {
  const known = UNITS.find((each) => each === unit);
  const name = known === undefined ? undefined : names[known];
  if (name === undefined) return unit;
  return amount !== null && Math.abs(doubleOf(amount)) === 1 ? name.one : name.other;
}

/** Shows the name of a unit, in the plural. */
export const UnitLabel = ({ unit }: { unit: string }) => <>{unitText(useContext(UnitNamesContext), unit)}</>;

/** Shows an amount with its unit: `3 credits`. */
export const UnitAmount = ({ of, unit }: { of: number; unit: string }) => (
  <>
    {amountText(of)} {unitText(useContext(UnitNamesContext), unit, of)}
  </>
);

/** Shows an amount before and after an action: `2,000 → 1,499.5 tokens`. */
export const BeforeAfter = ({ from, to, unit }: { from: number; to: number; unit: string }) => (
  <>
    {amountText(from)} → <UnitAmount of={to} unit={unit} />
  </>
);

/** Returns a function that writes an amount with its unit. Only for components. */
export function useUnits(): (unit: string, amount: number) => string {
  const names = useContext(UnitNamesContext);
  return (unit, amount) => `${amountText(amount)} ${unitText(names, unit, amount)}`;
}

/** Shows amounts of several units in one line. */
export const AmountList = (props: {
  readonly of: readonly { readonly unit: string; readonly amount: number }[];
  readonly none?: string;
}) => {
  const inUnit = useUnits();
  return <>{props.of.map(({ unit, amount }) => inUnit(unit, amount)).join(", ") || props.none}</>;
};

/** Shows quantities of several units: `1 credit, 500 tokens`. */
export const QuantityList = ({ of, none = "" }: { of: object; none?: string }) => {
  const names = useContext(UnitNamesContext);
  const parts = Object.entries(of).map(([unit, value]) =>
    typeof value === "string" ? `${value} ${unit}` : `${amountText(value)} ${unitText(names, unit, value)}`,
  );
  return <>{parts.length === 0 ? none : parts.join(", ")}</>;
};

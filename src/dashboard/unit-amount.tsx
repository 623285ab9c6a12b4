import { createContext, useContext } from "hono/jsx";
import { doubleOf, UNITS } from "../books/amounts/amount.ts";
import type { UnitNames } from "../books/prices/unit-names.ts";
import { amountText, moneyText, shortAmount, signed } from "./format.tsx";

/** The application's own names of units (PR7), and the currency of its wallets, in which cents are shown as money. */
export interface ShownUnits {
  readonly names: UnitNames["names"];
  /** Null where no currency is set. */
  readonly currency: string | null;
}

export const NO_UNITS: ShownUnits = { names: {}, currency: null };
/** The units of the page's application. */
export const UnitsContext = createContext(NO_UNITS);

/** Returns the name of a unit for an amount: `credit` for 1, `credits` otherwise. Without a name, the unit itself. */
export function unitText({ names }: ShownUnits, unit: string, amount: number | null = null): string {
  const known = UNITS.find((each) => each === unit);
  const name = known === undefined ? undefined : names[known];
  if (name === undefined) return unit;
  return amount !== null && Math.abs(doubleOf(amount)) === 1 ? name.one : name.other;
}

/** Returns an amount as money: cents that have a currency and no name of their own. Null for others. */
const moneyOf = ({ names, currency }: ShownUnits, unit: string, amount: number): string | null =>
  unit === "cents" && currency !== null && names.cents === undefined ? moneyText(amount, currency) : null;

/** Returns an amount with its unit, never as money: `279.9 cents`. */
export const exactText = (units: ShownUnits, unit: string, amount: number): string =>
  `${amountText(amount)} ${unitText(units, unit, amount)}`;

/** Returns an amount with its unit, or as money: `3 credits`, `$2.79`. */
export const unitAmountText = (units: ShownUnits, unit: string, amount: number): string =>
  moneyOf(units, unit, amount) ?? exactText(units, unit, amount);

/** Returns a change with its unit, or as money: `+3 credits`, `-$2.79`. */
export function unitChangeText(units: ShownUnits, unit: string, change: number): string {
  const money = moneyOf(units, unit, change);
  if (money === null) return `${signed(change)} ${unitText(units, unit, change)}`;
  return doubleOf(change) > 0 ? `+${money}` : money;
}

interface AmountProps {
  readonly of: number;
  readonly unit: string;
}

/** Returns an amount and what it was issued with: `3 of 10 credits`. */
export const partText = (units: ShownUnits, unit: string, part: number, of: number): string =>
  `${moneyOf(units, unit, part) ?? amountText(part)} of ${unitAmountText(units, unit, of)}`;

/** Returns a component that shows an amount as a text. Of money, the exact amount is shown on hover. */
const amountShownAs = (textOf: (units: ShownUnits, unit: string, amount: number) => string) =>
  function Amount({ of, unit }: AmountProps) {
    const units = useContext(UnitsContext);
    const text = textOf(units, unit, of);
    const isMoney = moneyOf(units, unit, of) !== null;
    return <>{isMoney ? <span title={exactText(units, unit, of)}>{text}</span> : text}</>;
  };

/** Shows an amount with its unit: `3 credits`. */
export const UnitAmount = amountShownAs(unitAmountText);
/** Shows a change with its unit: `+3 credits`. */
export const UnitChange = amountShownAs(unitChangeText);
/** Shows an amount beside another one that has the unit: `3`. */
export const BareAmount = amountShownAs((units, unit, amount) => moneyOf(units, unit, amount) ?? amountText(amount));

/** Shows a large amount beside another one that has the unit: `3.2K`. */
export const ShortAmount = amountShownAs((units, unit, amount) => moneyOf(units, unit, amount) ?? shortAmount(amount));

/** Shows the name of a unit after a number. Nothing for cents that are shown as money. */
export const UnitAfter = ({ unit }: { unit: string }) => {
  const units = useContext(UnitsContext);
  return moneyOf(units, unit, 0) === null ? <> {unitText(units, unit)}</> : null;
};

/** Shows the name of a unit, in the plural. */
export const UnitLabel = ({ unit }: { unit: string }) => <>{unitText(useContext(UnitsContext), unit)}</>;

/** Shows an amount before and after an action: `2,000 → 1,499.5 tokens`. */
export const BeforeAfter = ({ from, to, unit }: { from: number; to: number; unit: string }) => (
  <>
    <BareAmount of={from} unit={unit} /> → <UnitAmount of={to} unit={unit} />
  </>
);

/** Shows an amount and what it was issued with: `3 of 10 credits`. */
export const PartOfAmount = ({ part, of, unit }: AmountProps & { part: number }) => (
  <>
    <BareAmount of={part} unit={unit} /> of <UnitAmount of={of} unit={unit} />
  </>
);

/** Returns a function that writes an amount with its unit. Only for components. */
export function useUnits(): (unit: string, amount: number) => string {
  const units = useContext(UnitsContext);
  return (unit, amount) => unitAmountText(units, unit, amount);
}

/** Shows amounts of several units in one line. */
export const AmountList = (props: {
  readonly of: readonly { unit: string; amount: number }[];
  readonly none?: string;
}) => (
  <>
    {props.of.length === 0 && props.none}
    {props.of.map(({ unit, amount }, index) => (
      <>
        {index > 0 && ", "}
        <UnitAmount of={amount} unit={unit} />
      </>
    ))}
  </>
);

/** Shows quantities of several units: `1 credit, 500 tokens`. */
export const QuantityList = ({ of, none = "" }: { of: object; none?: string }) => {
  const units = useContext(UnitsContext);
  const parts = Object.entries(of).map(([unit, value]) =>
    typeof value === "string" ? `${value} ${unit}` : unitAmountText(units, unit, value),
  );
  return <>{parts.length === 0 ? none : parts.join(", ")}</>;
};

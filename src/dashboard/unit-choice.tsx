import { useContext } from "hono/jsx";
import { UNITS } from "../books/amounts/amount.ts";
import { Choice } from "./fields.tsx";
import { type ShownUnits, UnitsContext, unitText } from "./unit-amount.tsx";

/** Returns the units to choose from. Each has the application's own name beside it: `count (credits)`. */
export const unitOptions = (units: ShownUnits) =>
  UNITS.map((unit) => {
    const own = unitText(units, unit);
    return [unit, own === unit ? unit : `${unit} (${own})`] as const;
  });

type UnitChoiceProps = Omit<Parameters<typeof Choice>[0], "options">;

/** A field that chooses a unit. */
export const UnitChoice = (props: UnitChoiceProps) => (
  <Choice {...props} options={unitOptions(useContext(UnitsContext))} />
);

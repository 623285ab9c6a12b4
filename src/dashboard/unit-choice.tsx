import { useContext } from "hono/jsx";
import { UNITS } from "../books/amounts/amount.ts";
import { Choice } from "./fields.tsx";
import { UnitsContext, unitText } from "./unit-amount.tsx";

type UnitChoiceProps = Omit<Parameters<typeof Choice>[0], "options">;

/** A field that chooses a unit. Each has the application's own name beside it: `count (credits)`. */
export const UnitChoice = (props: UnitChoiceProps) => {
  const units = useContext(UnitsContext);
  const options = UNITS.map((unit) => {
    const own = unitText(units, unit);
    return [unit, own === unit ? unit : `${unit} (${own})`] as const;
  });
  return <Choice {...props} options={options} />;
};

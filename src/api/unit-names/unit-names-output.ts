import * as z from "zod";
import { displayName } from "../../http/fields.ts";
import { lazy } from "../../http/lazy.ts";
import { words } from "../../lib/words.ts";

const unitName = lazy(() =>
  z
    .strictObject({
      one: displayName().meta(words("For an amount of 1.", "credit")),
      other: displayName().meta(words("For every other amount.", "credits")),
    })
    .meta({ id: "UnitName" }),
);

export const unitNames = lazy(() =>
  z
    .strictObject({
      count: unitName.optional().meta(words("The name of `count`.")),
      tokens: unitName.optional().meta(words("The name of `tokens`.")),
      seconds: unitName.optional().meta(words("The name of `seconds`.")),
      cents: unitName.optional().meta(words("The name of `cents`.")),
    })
    .meta({ id: "UnitNames", ...words("The names, by unit. A unit without one has its usual name.") }),
);

export const unitNamesOutput = lazy(() => z.strictObject({ names: unitNames }).meta({ id: "NamesOfUnits" }));

export const exampleUnitNames = { names: { count: { one: "credit", other: "credits" } } };

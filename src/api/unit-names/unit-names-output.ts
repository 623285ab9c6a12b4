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
      count: unitName.optional().meta(words("A count.", 1)),
      tokens: unitName.optional().meta(words("Tokens.", 120)),
      seconds: unitName.optional().meta(words("Seconds.", 2.5)),
      cents: unitName.optional().meta(words("Cents.", 0.25)),
    })
    .meta({ id: "UnitNames", ...words("The names, by unit. A unit without one has its usual name.") }),
);

export const unitNamesOutput = lazy(() => z.strictObject({ names: unitNames }).meta({ id: "NamesOfUnits" }));

export const exampleUnitNames = { names: { count: { one: "credit", other: "credits" } } };

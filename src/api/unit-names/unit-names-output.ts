import * as z from "zod";
import { displayName } from "../../http/fields.ts";

const unitName = z.lazy(() =>
  z
    .strictObject({
      one: displayName().meta({ description: "For an amount of 1.", example: "credit" }),
      other: displayName().meta({ description: "For every other amount.", example: "credits" }),
    })
    .meta({ id: "UnitName" }),
);

export const unitNames = z.lazy(() =>
  z
    .strictObject({
      count: unitName.optional(),
      tokens: unitName.optional(),
      seconds: unitName.optional(),
      cents: unitName.optional(),
    })
    .meta({ id: "UnitNames", description: "The names, by unit. A unit without one has its usual name." }),
);

export const unitNamesOutput = z.lazy(() => z.strictObject({ names: unitNames }).meta({ id: "NamesOfUnits" }));

export const exampleUnitNames = { names: { count: { one: "credit", other: "credits" } } };

import * as z from "zod";
import { once } from "../../lib/once.ts";
import { unit } from "./schemas.ts";

/** The quantities in a response: the units that the event has. */
export const quantitiesOutput = z.lazy(() =>
  z
    .strictObject({
      count: z.number().optional(),
      tokens: z.number().optional(),
      seconds: z.number().optional(),
      cents: z.number().optional(),
    })
    .meta({ id: "Quantities" }),
);

/** A sum of amounts, which may have more digits than a double. The TypeScript client has a type of its own for it. */
export const sumOutput = z.number().meta({ "x-sum": true });

/** Sums of quantities: the units that have some. */
export const summedQuantities = z.lazy(() =>
  z
    .strictObject({
      count: sumOutput.optional(),
      tokens: sumOutput.optional(),
      seconds: sumOutput.optional(),
      cents: sumOutput.optional(),
    })
    .meta({ id: "SummedQuantities" }),
);

/** The amount that one balance pays. */
export const debit = z.lazy(
  once(() =>
    z
      .strictObject({
        balanceId: z.string(),
        packId: z.string(),
        unit,
        amount: z.number(),
        remaining: z.number().describe("The balance after the debit."),
      })
      .meta({ id: "Debit" }),
  ),
);
export type Debit = z.infer<typeof debit>;

import * as z from "zod";

/** The quantities in a response: the units that the event has. */
export const quantitiesOutput = z
  .strictObject({
    count: z.number().optional(),
    tokens: z.number().optional(),
    seconds: z.number().optional(),
    cents: z.number().optional(),
  })
  .meta({ id: "Quantities" });

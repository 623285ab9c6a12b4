import * as z from "zod";
import { matchRule, unit } from "../amounts/schemas.ts";

const time = z.string().meta({ format: "date-time" });

export const pack = z
  .strictObject({
    packId: z.string(),
    packName: z.string(),
    defaultExpiryDays: z.number().nullable(),
    items: z.array(
      z.strictObject({
        packItemId: z.string(),
        amount: z.number(),
        unit,
        matches: z.array(matchRule),
        priority: z.number(),
      }),
    ),
    unit: unit.nullable().describe("Null, like `matches` and `priority`, for a pack with items."),
    matches: z.array(matchRule).nullable(),
    priority: z.number().nullable(),
    createdAt: time,
    archivedAt: time.nullable(),
    version: z.int().describe("One more with each change, archiving and restoring."),
  })
  .meta({ id: "CreditPack" });
export type PackOutput = z.infer<typeof pack>;

export const listPacksOutput = z.strictObject({ packs: z.array(pack) });
export type ListPacksOutput = z.infer<typeof listPacksOutput>;

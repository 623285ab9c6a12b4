import * as z from "zod";
import { matchRule, unit } from "../../books/amounts/schemas.ts";
import { time } from "../../http/responses.ts";

export const pack = z
  .strictObject({
    packId: z.string(),
    packName: z.string(),
    defaultExpiryDays: z.number().nullable(),
    items: z.array(
      z
        .strictObject({
          packItemId: z.string(),
          amount: z.number(),
          unit,
          matches: z.array(matchRule),
          priority: z.number(),
        })
        .meta({ id: "CreditPackItem" }),
    ),
    unit: z.nullable(unit).describe("Null for a pack with items, as are `matches` and `priority`."),
    matches: z.array(matchRule).nullable(),
    priority: z.number().nullable(),
    createdAt: time,
    archivedAt: time.nullable(),
    version: z.int().describe("Grows by one with each change, archiving and restoring."),
  })
  .meta({ id: "CreditPack" });
export type PackOutput = z.infer<typeof pack>;

export const listPacksOutput = z.strictObject({ packs: z.array(pack) }).meta({ id: "CreditPackList" });
export type ListPacksOutput = z.infer<typeof listPacksOutput>;

import * as z from "zod";
import { appId, EXAMPLE } from "../common.ts";

export const newPackItem = { amount: 400, unit: "tokens", matches: [{ event: "chat.*" }], priority: 50 };

export const packItem = { packItemId: EXAMPLE.packItemId, ...newPackItem };

export const examplePack = {
  packId: EXAMPLE.packId,
  packName: "Starter",
  defaultExpiryDays: 365,
  items: [packItem],
  unit: null,
  matches: null,
  priority: null,
  createdAt: EXAMPLE.createdAt,
  archivedAt: null,
  version: 1,
};

export const packParams = z.lazy(() =>
  z.object({ appId, packId: z.string().describe("The id of the pack, `cpk_…`.") }),
);

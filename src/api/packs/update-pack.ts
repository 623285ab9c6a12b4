import * as z from "zod";
import { patchPack } from "../../catalog/change-pack.ts";
import { identifier } from "../../http/fields.ts";
import { administration } from "../access.ts";
import { operation } from "../operation.ts";
import {
  checkAmount,
  defaultExpiryDays,
  examplePack,
  itemFields,
  itemListOf,
  legacyFields,
  pack,
  packItem,
  packName,
  packParams,
} from "./pack-shapes.ts";

const keptItem = z.lazy(() =>
  z
    .strictObject({
      packItemId: identifier()
        .optional()
        .describe("The id of an existing item, to keep it. Without it the item is new."),
      ...itemFields(),
    })
    .superRefine(checkAmount)
    .meta({ id: "UpdateCreditPackItem" }),
);

export const patchPackInput = z.lazy(() =>
  z
    .strictObject({
      version: z
        .int()
        .min(1)
        .optional()
        .describe("The version that you read. If the pack was changed after that, the update is refused."),
      packName: packName().optional(),
      defaultExpiryDays: defaultExpiryDays(),
      items: itemListOf(keptItem).optional().describe("The whole new list of items."),
      ...legacyFields(),
    })
    .meta({ id: "UpdateCreditPack" }),
);

export default operation({
  id: "updatePack",
  method: "patch",
  path: "/api/v1/admin/apps/{appId}/packs/{packId}",
  tag: "Administration",
  access: administration("write", "none"),
  params: packParams,
  body: patchPackInput,
  output: () => pack,
  errors: ["pack_name_taken", "changed_meanwhile"],
  summary: "Update a credit pack",
  description:
    "Changes the fields that you send. `items` is the whole new list; an item with its `packItemId` keeps its " +
    "identity. Existing balances do not change. With the `version` that you read, the update is refused if the " +
    "pack was changed after that; `details.version` is the current version.",
  returns: "The updated pack.",
  example: () => ({
    body: { version: 1, packName: "Starter", items: [packItem] },
    output: { ...examplePack, version: 2 },
  }),
  handler: (admin, { params, body }) => patchPack(admin, params.appId, params.packId, body),
});

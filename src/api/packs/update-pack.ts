import * as z from "zod";
import { patchPack } from "../../catalog/change-pack.ts";
import { identifier } from "../../http/fields.ts";
import { lazy } from "../../http/lazy.ts";
import { itemNames, packNames } from "../../http/wrong-names.ts";
import { words } from "../../lib/words.ts";
import { administration } from "../access.ts";
import { operation } from "../operation.ts";
import {
  checkAmount,
  defaultExpiryDays,
  examplePack,
  itemFields,
  itemListOf,
  openAmountFields,
  pack,
  packItem,
  packName,
  packParams,
} from "./pack-shapes.ts";

const keptItem = lazy(() =>
  z
    .strictObject({
      packItemId: identifier()
        .optional()
        .meta(
          words("The id of an existing item, to keep it. Without it the item is new.", "cpi_7hWk3yB5nC0eUi9fMvS4Lx"),
        ),
      ...itemFields(),
    })
    .superRefine(checkAmount)
    .meta({ id: "UpdateCreditPackItem", wrongNames: { packItemId: "id itemId", ...itemNames } }),
);

export const patchPackInput = lazy(() =>
  z
    .strictObject({
      version: z
        .int()
        .min(1)
        .optional()
        .meta(words("The version that you read. If the pack was changed after that, the update is rejected.", 1)),
      packName: packName()
        .optional()
        .meta(
          words("Unique among the application's packs that are not archived. Letter case does not matter.", "Starter"),
        ),
      defaultExpiryDays: defaultExpiryDays().meta(
        words("Days until a granted balance expires, unless the grant says otherwise. Null: never.", 365),
      ),
      items: itemListOf(keptItem).optional().meta(words("The whole new list of items.")),
      ...openAmountFields(),
    })
    .meta({ id: "UpdateCreditPack", wrongNames: packNames }),
);

export default operation({
  id: "updatePack",
  method: "patch",
  path: "/api/v1/admin/apps/{appId}/packs/{packId}",
  tag: "Administration",
  access: administration("write", "none"),
  params: packParams,
  body: patchPackInput,
  errors: ["pack_name_taken", "changed_meanwhile"],
  ...(WITH_REFERENCE && {
    output: () => pack,
    summary: "Update a credit pack",
    description:
      "Changes the fields that you send. `items` is the whole new list; an item with its `packItemId` keeps its " +
      "identity. Existing balances do not change. With the `version` that you read, the update is rejected if the " +
      "pack was changed after that; `details.version` is the current version.",
    returns: "The updated pack.",
    example: () => ({
      body: { version: 1, packName: "Starter", items: [packItem] },
      output: { ...examplePack, version: 2 },
    }),
  }),
  handler: (admin, { params, body }) => patchPack(admin, params.appId, params.packId, body),
});

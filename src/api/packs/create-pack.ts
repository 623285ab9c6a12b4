import * as z from "zod";
import { requireApp } from "../../catalog/apps.ts";
import { createPack } from "../../catalog/insert-pack.ts";
import { OPEN_AMOUNT_FIELDS } from "../../catalog/pack.ts";
import { lazy } from "../../http/lazy.ts";
import { itemNames, packNames } from "../../http/wrong-names.ts";
import { words } from "../../lib/words.ts";
import { administration } from "../access.ts";
import { appParams } from "../common.ts";
import { operation } from "../operation.ts";
import {
  checkAmount,
  defaultExpiryDays,
  examplePack,
  itemFields,
  itemListOf,
  newPackItem,
  openAmountFields,
  pack,
  packName,
} from "./pack-shapes.ts";

const newItem = lazy(() =>
  z.strictObject(itemFields()).superRefine(checkAmount).meta({ id: "CreateCreditPackItem", wrongNames: itemNames }),
);

const newPack = () =>
  z.strictObject({
    packName: packName(),
    defaultExpiryDays: defaultExpiryDays(),
    items: itemListOf(newItem).meta(words("The pack's items. Empty for a pack without items.")),
    ...openAmountFields(),
  });

export const createPackInput = lazy(() =>
  newPack()
    .superRefine((pack, context) => {
      if (pack.items.length === 0 && pack.unit === undefined) {
        context.addIssue({ code: "custom", path: ["unit"], message: "is required for a pack without items" });
      }
      if (pack.items.length === 0) return;
      for (const field of OPEN_AMOUNT_FIELDS) {
        if (pack[field] === undefined) continue;
        context.addIssue({ code: "custom", path: [field], message: "is allowed only for a pack without items" });
      }
    })
    .meta({ id: "CreateCreditPack", wrongNames: packNames }),
);

export default operation({
  id: "createPack",
  method: "post",
  path: "/api/v1/admin/apps/{appId}/packs",
  tag: "Administration",
  access: administration("write", "none"),
  params: appParams,
  body: createPackInput,
  errors: ["pack_name_taken"],
  ...(WITH_REFERENCE && {
    output: () => pack,
    summary: "Create a credit pack",
    description:
      "Creates a pack with items, or a legacy pack without items (`items: []`), which has a `unit`. A grant of a " +
      "legacy pack names the quantity.",
    returns: "The pack.",
    example: () => ({
      body: { packName: "Starter", defaultExpiryDays: 365, items: [newPackItem] },
      output: examplePack,
    }),
  }),
  handler: async (admin, { params, body }) => {
    const { id } = await requireApp(admin, params.appId);
    return createPack(admin, id, body);
  },
});

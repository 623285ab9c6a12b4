import { patchPack } from "../../catalog/change-pack.ts";
import { pack } from "../../catalog/responses.ts";
import { patchPackInput } from "../../catalog/schemas.ts";
import { administration } from "../access.ts";
import { operation } from "../operation.ts";
import { examplePack, packItem, packParams } from "./shapes.ts";

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

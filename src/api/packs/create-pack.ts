import { requireApp } from "../../catalog/apps.ts";
import { createPack } from "../../catalog/create-pack.ts";
import { pack } from "../../catalog/responses.ts";
import { createPackInput } from "../../catalog/schemas.ts";
import { administration } from "../access.ts";
import { appParams } from "../common.ts";
import { operation } from "../operation.ts";
import { examplePack, newPackItem } from "./shapes.ts";

export default operation({
  id: "createPack",
  method: "post",
  path: "/api/v1/admin/apps/{appId}/packs",
  tag: "Administration",
  access: administration("write", "none"),
  params: appParams,
  body: createPackInput,
  output: () => pack,
  errors: ["pack_name_taken"],
  summary: "Create a credit pack",
  description:
    "Creates a pack with items, or a legacy pack without items (`items: []`), which has a `unit`. A grant of a " +
    "legacy pack names the quantity.",
  returns: "The pack.",
  example: () => ({
    body: { packName: "Starter", defaultExpiryDays: 365, items: [newPackItem] },
    output: examplePack,
  }),
  handler: async (admin, { params, body }) => {
    const { id } = await requireApp(admin, params.appId);
    return createPack(admin, id, body);
  },
});

import * as z from "zod";
import { requireApp } from "../../catalog/apps.ts";
import { listPacks } from "../../catalog/pack.ts";
import { words } from "../../lib/words.ts";

import { administration } from "../access.ts";
import { appParams } from "../common.ts";
import { operation } from "../operation.ts";
import { examplePack, pack } from "./pack-shapes.ts";

export default operation({
  id: "listPacks",
  method: "get",
  path: "/api/v1/admin/apps/{appId}/packs",
  tag: "Administration",
  access: administration("read", "own"),
  params: appParams,
  ...(WITH_REFERENCE && {
    output: () => z.strictObject({ packs: z.array(pack).meta(words("The packs.")) }).meta({ id: "CreditPackList" }),
    summary: "List an application's packs",
    description: "Returns all packs, oldest first, including archived ones.",
    returns: "The packs.",
    example: () => ({ output: { packs: [examplePack] } }),
  }),
  handler: async (admin, { params }) => {
    const { id } = await requireApp(admin, params.appId);
    return listPacks(admin, id);
  },
});

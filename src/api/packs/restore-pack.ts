import { restorePack } from "../../catalog/change-pack.ts";

import { administration } from "../access.ts";
import { operation } from "../operation.ts";
import { examplePack, pack, packParams } from "./pack-shapes.ts";

export default operation({
  id: "restorePack",
  method: "post",
  path: "/api/v1/admin/apps/{appId}/packs/{packId}/restore",
  tag: "Administration",
  access: administration("write", "none"),
  params: packParams,
  errors: ["pack_name_taken"],
  idempotent: true,
  ...(WITH_REFERENCE && {
    output: () => pack,
    summary: "Restore an archived credit pack",
    description:
      "Restores a pack, so that it can be granted again under its name. Restoring a pack that is not archived " +
      "changes nothing.",
    returns: "The pack.",
    example: () => ({ output: { ...examplePack, version: 3 } }),
  }),
  handler: (admin, { params }) => restorePack(admin, params.appId, params.packId),
});

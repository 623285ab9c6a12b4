import { archivePack } from "../../catalog/change-pack.ts";

import { administration } from "../access.ts";
import { operation } from "../operation.ts";
import { examplePack, pack, packParams } from "./pack-shapes.ts";

export default operation({
  id: "archivePack",
  method: "post",
  path: "/api/v1/admin/apps/{appId}/packs/{packId}/archive",
  tag: "Administration",
  access: administration("write", "none"),
  params: packParams,
  idempotent: true,
  ...(WITH_REFERENCE && {
    output: () => pack,
    summary: "Archive a credit pack",
    description:
      "Archives a pack. It can no longer be granted, and its name can be used again. Existing balances do not change.",
    returns: "The archived pack.",
    example: () => ({ output: { ...examplePack, archivedAt: "2026-02-01T09:00:00.000Z", version: 2 } }),
  }),
  handler: (admin, { params }) => archivePack(admin, params.appId, params.packId),
});

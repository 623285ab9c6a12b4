import * as z from "zod";
import { readKeyOfApp, revokeKey } from "../../catalog/keys.ts";
import { words } from "../../lib/words.ts";

import { administrationOfRow, BY_KIND } from "../access.ts";
import { appId } from "../common.ts";
import { operation } from "../operation.ts";
import { exampleKey, key } from "./key-shapes.ts";

export default operation({
  id: "revokeKey",
  method: "delete",
  path: "/api/v1/admin/apps/{appId}/keys/{keyId}",
  tag: "Administration",
  access: administrationOfRow(BY_KIND, (admin, path: { readonly appId: string; readonly keyId: string }) =>
    readKeyOfApp(admin, path.appId, path.keyId),
  ),
  params: z.object({
    appId,
    keyId: z.string().meta(words("The id of the key, `key_…`.", "key_8tLf2mY4cJ7hWs1xNvQ9Ba")),
  }),
  ...(WITH_REFERENCE && {
    output: () => key,
    summary: "Revoke a key",
    description:
      "Revokes a key. It stops working at once, for reads at a replica within seconds. Revoking it again changes " +
      "nothing.",
    returns: "The revoked key.",
    example: () => ({
      output: { ...exampleKey, name: "Backend", revokedAt: "2026-02-01T09:00:00.000Z", lastUsedOn: null },
    }),
  }),
  handler: ({ admin }, { params }) => revokeKey(admin, params.appId, params.keyId),
});

import * as z from "zod";
import { revokeAdminKey } from "../../catalog/admin-keys.ts";
import { words } from "../../lib/words.ts";

import { administration } from "../access.ts";
import { operation } from "../operation.ts";
import { adminKeyOutput, exampleAdminKey } from "./key-shapes.ts";

export default operation({
  id: "revokeAdminKey",
  method: "delete",
  path: "/api/v1/admin/keys/{adminKeyId}",
  tag: "Administration",
  access: administration(null),
  params: z.object({ adminKeyId: z.string().meta(words("The id of the key, `adk_…`.", "adk_8tLf2mY4cJ7hWs1xNvQ9Ba")) }),
  ...(WITH_REFERENCE && {
    output: () => adminKeyOutput,
    summary: "Revoke an administration key",
    description: "Revokes an administration key at once. Revoking it again changes nothing.",
    returns: "The revoked key.",
    example: () => ({ output: { ...exampleAdminKey, revokedAt: "2026-02-01T09:00:00.000Z" } }),
  }),
  handler: (admin, { params }) => revokeAdminKey(admin, params.adminKeyId),
});

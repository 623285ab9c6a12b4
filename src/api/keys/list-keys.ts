import * as z from "zod";
import { onlyModeOf } from "../../auth/scopes.ts";
import { listKeys } from "../../catalog/keys.ts";

import { cursor, pageLimit } from "../../http/fields.ts";
import { administration } from "../access.ts";
import { appParams } from "../common.ts";
import { operation } from "../operation.ts";
import { exampleKey, key } from "./key-shapes.ts";

export default operation({
  id: "listKeys",
  method: "get",
  path: "/api/v1/admin/apps/{appId}/keys",
  tag: "Administration",
  access: administration("read", "own"),
  params: appParams,
  query: z.lazy(() =>
    z.object({
      limit: pageLimit("keys", 100),
      cursor,
    }),
  ),
  output: () =>
    z
      .strictObject({
        keys: z.array(key),
        nextCursor: z.string().nullable().describe("The cursor of the next page. Null on the last page."),
      })
      .meta({ id: "ApiKeyList" }),
  summary: "List an application's keys",
  description:
    "Returns a page of keys, oldest first, including revoked ones. An administration key gets only the keys of " +
    "its modes.",
  returns: "A page of keys. A key itself is not shown; `hint` identifies it.",
  example: () => ({
    output: {
      keys: [{ ...exampleKey, name: "Backend", revokedAt: null, lastUsedOn: "2026-01-20" }],
      nextCursor: null,
    },
  }),
  handler: (admin, { params, query }) => listKeys(admin, params.appId, query, onlyModeOf(admin)),
});

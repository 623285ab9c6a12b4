import * as z from "zod";
import { listAdminKeys } from "../../catalog/admin-keys.ts";
import { words } from "../../lib/words.ts";

import { administration } from "../access.ts";
import { operation } from "../operation.ts";
import { adminKeyOutput, exampleAdminKey } from "./key-shapes.ts";

export default operation({
  id: "listAdminKeys",
  method: "get",
  path: "/api/v1/admin/keys",
  tag: "Administration",
  access: administration(null),
  ...(WITH_REFERENCE && {
    output: () =>
      z.strictObject({ keys: z.array(adminKeyOutput).meta(words("The keys.")) }).meta({ id: "AdminKeyList" }),
    summary: "List administration keys",
    description: "Returns all administration keys, oldest first, including revoked ones.",
    returns: "The keys. A key itself is not shown; `hint` identifies it.",
    example: () => ({ output: { keys: [{ ...exampleAdminKey, revokedAt: null }] } }),
  }),
  handler: (admin) => listAdminKeys(admin),
});

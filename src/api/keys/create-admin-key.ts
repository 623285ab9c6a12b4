import { createAdminKey } from "../../catalog/admin-keys.ts";
import { createAdminKeyOutput } from "../../catalog/responses.ts";
import { createAdminKeyInput } from "../../catalog/schemas.ts";
import { administration } from "../access.ts";
import { operation } from "../operation.ts";
import { exampleAdminKey, newAdminKey } from "./shapes.ts";

export default operation({
  id: "createAdminKey",
  method: "post",
  path: "/api/v1/admin/keys",
  tag: "Administration",
  access: administration(null),
  body: createAdminKeyInput,
  output: () => createAdminKeyOutput,
  summary: "Create an administration key",
  description:
    "Creates a key for a person or a service that must not have the admin token. It has scopes, and may be " +
    "limited to some applications or to one mode. It is returned only once, because Purser stores only its hash. " +
    "Its rights cannot be changed later. A key with the scope `access` can read everything in its applications, " +
    "because it can create their secret keys.",
  returns: "The key.",
  example: () => ({ body: newAdminKey, output: { ...exampleAdminKey, key: "ak_6nPz0vQ4tH8kXw2yBc5mAb3CdEfG" } }),
  handler: (admin, { body }) => createAdminKey(admin, body),
});

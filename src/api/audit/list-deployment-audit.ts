import * as z from "zod";
import { NO_APP } from "../../catalog/audit.ts";
import { listAudit } from "../../catalog/audit-page.ts";
import { cursor, pageLimit } from "../../http/fields.ts";
import { lazy } from "../../http/lazy.ts";
import { words } from "../../lib/words.ts";
import { administration } from "../access.ts";
import { EXAMPLE } from "../common.ts";
import { exampleAdminKey, newAdminKey } from "../keys/key-shapes.ts";
import { operation } from "../operation.ts";
import { listAuditOutput } from "./audit-shapes.ts";

/** A page of the audit entries that belong to no application. */
const pageInput = lazy(() =>
  z.object({ limit: pageLimit("entries").meta(words("The most entries in a page.", 50)), cursor }),
);

const { createdAt } = EXAMPLE;

export default operation({
  id: "listDeploymentAudit",
  method: "get",
  path: "/api/v1/admin/audit",
  tag: "Administration",
  access: administration(null),
  query: pageInput,
  ...(WITH_REFERENCE && {
    output: () => listAuditOutput,
    summary: "List the audit log of the deployment",
    description:
      "Returns the actions that belong to no application, newest first: administration keys that were created or " +
      "revoked.",
    returns: "A page of the audit log.",
    example: () => ({
      output: {
        entries: [
          {
            at: createdAt,
            by: "ann@example.com",
            action: "admin_key.created",
            target: exampleAdminKey.adminKeyId,
            userId: null,
            details: { scopes: newAdminKey.scopes, apps: null, modes: newAdminKey.modes },
          },
        ],
        nextCursor: null,
      },
    }),
  }),
  handler: async (admin, { query }) => (await listAudit(admin, NO_APP, query)).page,
});

import * as z from "zod";
import { mode } from "../../http/fields.ts";
import { lazy } from "../../http/lazy.ts";
import { words } from "../../lib/words.ts";
import { listWebhooks } from "../../webhooks/endpoints.ts";

import { administration } from "../access.ts";
import { appParams } from "../common.ts";
import { operation } from "../operation.ts";
import { webhook, webhookOutput } from "./webhook-shapes.ts";

export default operation({
  id: "listWebhooks",
  method: "get",
  path: "/api/v1/admin/apps/{appId}/webhooks",
  tag: "Administration",
  access: administration("read", "argument"),
  params: appParams,
  query: lazy(() => z.object({ mode: mode.meta(words("The mode of the endpoints.", "live")) })),
  ...(WITH_REFERENCE && {
    output: () =>
      z.strictObject({ webhooks: z.array(webhookOutput).meta(words("The endpoints.")) }).meta({ id: "WebhookList" }),
    summary: "List endpoints",
    description: "Returns the endpoints of one mode, oldest first.",
    returns: "The endpoints.",
    example: () => ({ output: { webhooks: [webhook] } }),
  }),
  handler: (admin, { params, query }) => listWebhooks(admin, params.appId, query.mode),
});

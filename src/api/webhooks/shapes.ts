import * as z from "zod";
import type { AdminCtx } from "../../runtime.ts";
import { requireEndpoint } from "../../webhooks/endpoint.ts";
import { appId, EXAMPLE } from "../common.ts";

const { createdAt } = EXAMPLE;

export const newWebhook = { mode: "live", url: "https://example.com/webhooks", types: ["credits.*"] };

export const webhook = {
  webhookId: "whk_2mQx8vN5bT0rKf7yLwZ3Hd",
  ...newWebhook,
  description: null,
  isEnabled: true,
  createdAt,
};

export const secret = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oDazyJtbTDpLQ=";

export const messageId = "msg_0VEGuQMw9bT0rKf7yLwZ3Hd5cQx2vN";

export const webhookParams = z.lazy(() =>
  z.object({ appId, webhookId: z.string().describe("The id of the endpoint, `whk_…`.") }),
);

/** Loads the endpoint of the path, by which a key's rights are judged. */
export const loadEndpoint = (admin: AdminCtx, path: { readonly appId: string; readonly webhookId: string }) =>
  requireEndpoint(admin, path.appId, path.webhookId);

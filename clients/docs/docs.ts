/** Draws the reference at /docs by Scalar, from openapi.json. Nothing is requested from another site. */
import type { createApiReference } from "@scalar/api-reference";

declare const Scalar: { readonly createApiReference: typeof createApiReference };

Scalar.createApiReference("#reference", {
  url: "/api/v1/openapi.json",
  telemetry: false,
  withDefaultFonts: false,
  agent: { disabled: true },
  mcp: { disabled: true },
  showDeveloperTools: "never",
  // A console would send keys from a page, which Purser rejects (W11).
  hideTestRequestButton: true,
  hideClientButton: true,
  documentDownloadType: "json",
  defaultHttpClient: { targetKey: "shell", clientKey: "curl" },
  operationTitleSource: "summary",
  generateWebhookSlug: ({ name }) => name,
  generateOperationSlug: ({ operationId, method, path }) => operationId ?? `${method}${path}`,
});

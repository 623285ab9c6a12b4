/** Draws the reference at /docs by Scalar, from openapi.json. Nothing is requested from another site. */
import type { createApiReference } from "@scalar/api-reference";

declare const Scalar: { readonly createApiReference: typeof createApiReference };

interface Parameter {
  readonly name: string;
  readonly required?: boolean;
  example?: unknown;
  examples?: object;
}
interface Document {
  readonly paths: Readonly<Record<string, Readonly<Record<string, { readonly parameters?: readonly Parameter[] }>>>>;
}

/**
 * Leaves optional parameters out of the requests that the page shows, where Scalar would send all that have an example: a cursor that
 * is made up is rejected. `userId` stays, because `listUsageEvents` needs it or `eventId`.
 */
function leaveOutOptional({ paths }: Document): void {
  const operations = Object.values(paths).flatMap((operationsOfPath) => Object.values(operationsOfPath));
  for (const parameter of operations.flatMap(({ parameters = [] }) => parameters)) {
    const { name, required, example } = parameter;
    if (required === true || name === "userId" || example === undefined) continue;
    parameter.examples = { example: { value: example, "x-disabled": true } };
    delete parameter.example;
  }
}

async function draw(): Promise<void> {
  const document = await (await fetch("/api/v1/openapi.json")).json();
  leaveOutOptional(document);
  Scalar.createApiReference("#reference", {
    content: document,
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
}

draw().catch((error: unknown) => {
  document.querySelector("#reference")?.append("The reference could not be loaded. Load this page again.");
  throw error;
});

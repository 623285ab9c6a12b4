import * as z from "zod";
import { exportPersonInput } from "../../exports/create-link.ts";
import { revokeLinksInput } from "../../exports/end-links.ts";
import { exportDocument, exportPersonOutput, revokeLinksOutput } from "../../exports/responses.ts";
import type { Operation } from "../operation.ts";
import { EXAMPLE } from "./common.ts";

const exampleUserId = "user_42";
const examplePerson = {
  personId: "per_3nWq8sT1yB6kZc0vLx5MdE",
  distinctIds: [
    { distinctId: exampleUserId, linkedAt: "2025-11-03T09:15:00.000Z", via: null, claimedBy: null, isVerified: false },
    {
      distinctId: "0194685f-1b2c-7d3e-8f40-5a6b7c8d9e0f",
      linkedAt: "2025-11-03T09:15:00.000Z",
      via: "identify",
      claimedBy: exampleUserId,
      isVerified: false,
    },
  ],
  properties: { email: "ada@example.com", plan: "pro" },
  createdAt: "2025-11-03T09:15:00.000Z",
  lastSeenAt: "2026-01-15T11:58:21.407Z",
  isIdentified: true,
  credits: { balances: [], ledger: [], recurring: [] },
  usageLimits: [],
  exports: [],
};
const pageView = {
  uuid: "0194685f-8a3c-7d11-9f2b-6c1d2e3f4a5b",
  event: "$pageview",
  distinctId: exampleUserId,
  timestamp: "2026-01-15T11:58:20.000Z",
  receivedAt: "2026-01-15T11:58:21.407Z",
  isVerified: false,
  properties: { $current_url: "https://example.com/pricing" },
};

/** The export of a person's data, by a download link. */
export const exportOperations: readonly Operation[] = [
  {
    id: "createExportLink",
    method: "post",
    path: "/api/v1/export-person",
    tag: "People",
    summary: "Create a download link for a person's data",
    description:
      "Creates a link that is valid for 24 hours and needs no key. Give it only to the person. No data is read yet, " +
      "so a link is returned even if nothing is stored. The request is recorded and appears in the export.",
    access: "secret",
    publishableGets: "requires_secret_key",
    body: { schema: exportPersonInput, example: { distinctId: exampleUserId } },
    success: {
      description: "The link.",
      schema: exportPersonOutput,
      example: {
        downloadUrl: "https://purser.example.com/api/v1/export-download?token=eyJhcHBJZCI6ImFwcF8x4oCmIn0.c2lnbmF0dXJl",
        expiresAt: "2026-01-16T12:00:00.000Z",
        format: "json",
      },
    },
    errors: ["export_unavailable"],
    writesForId: "silent",
  },
  {
    id: "revokeExportLinks",
    method: "post",
    path: "/api/v1/export-person/revoke",
    tag: "People",
    summary: "Revoke a person's download links",
    description:
      "Ends every link that was created for this id until now. From then on, such a link is refused like an expired " +
      "one. A download that has begun is finished. Links for other ids of the person stay valid.",
    access: "secret",
    publishableGets: "requires_secret_key",
    body: { schema: revokeLinksInput, example: { distinctId: exampleUserId } },
    success: { description: "How many valid links were ended.", schema: revokeLinksOutput, example: { revoked: 1 } },
    errors: ["export_unavailable"],
    writesForId: "silent",
  },
  {
    id: "downloadExport",
    method: "get",
    path: "/api/v1/export-download",
    tag: "People",
    summary: "Download a person's data",
    description:
      "Opens a link of `createExportLink`. The document is generated while it is sent, and has the state of one moment, " +
      "`exportedAt`. If the download is interrupted, the JSON is incomplete and does not parse. A link may be opened again. The " +
      "person is the requested id and the ids that are linked to it. A browser that opens a link which is not valid (`Accept` names " +
      "`text/html`) sees a short page instead of the JSON of the 401.",
    access: "open",
    query: z.object({ token: z.string().describe("The `token` of the `downloadUrl`.") }),
    success: {
      description: "The document. Its JSON Schema is at `/api/v1/export-document.schema.json`.",
      schema: exportDocument.meta({ id: "PersonExport" }),
      example: {
        format: "json",
        exportedAt: "2026-01-15T12:00:00.000Z",
        appId: EXAMPLE.appId,
        mode: "live",
        distinctId: exampleUserId,
        person: examplePerson,
        events: { analytics: [pageView], metering: [] },
        consentLog: [],
      },
    },
    errors: ["invalid_or_expired_token", "export_unavailable", "rate_limited"],
    writesForId: "silent",
  },
  {
    id: "getExportDocumentSchema",
    method: "get",
    path: "/api/v1/export-document.schema.json",
    tag: "People",
    summary: "Get the JSON Schema of the export document",
    description: "Returns the JSON Schema of the document that `downloadExport` returns.",
    access: "open",
    success: {
      description: "The schema, JSON Schema 2020-12.",
      schema: z.looseObject({ $schema: z.string() }).meta({ id: "JsonSchemaDocument" }),
      example: { $schema: "https://json-schema.org/draft/2020-12/schema", type: "object" },
    },
    errors: [],
  },
];

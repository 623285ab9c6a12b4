import { env } from "cloudflare:workers";
import { type Schema, Validator } from "@cfworker/json-schema";
import { type ExportDocument, exportDocumentSchema } from "../../src/api/exports/export-document.ts";
import { signToken } from "../../src/exports/create-link.ts";
import { DAY_MS, iso } from "../../src/lib/time.ts";
import { oneOfEachShape } from "./shape-of.ts";
import { bound, type Clock, startIsolate, type TestApp } from "./world.ts";

// The published form of the schema, which has no undefined values.
const schema = JSON.parse(JSON.stringify(exportDocumentSchema())) as Schema;
const validator = new Validator(schema, "2020-12", false);

/** Parses a document and checks it against the published JSON Schema. */
export function readDocument(text: string): ExportDocument {
  const document: unknown = JSON.parse(text);
  const { valid, errors } = validator.validate(oneOfEachShape(document));
  if (!valid) throw new Error(errors.map((error) => `${error.instanceLocation} ${error.error}`).join("\n"));
  // The schema and this type are generated from the same source.
  return document as ExportDocument;
}

/** Signs a download link, without an audit row of its creation. */
export async function linkTo(app: TestApp, distinctId: string, clock: Clock, mode: "live" | "test" = "live") {
  const claims = { appId: app.appId, mode, distinctId, expiresAt: iso(clock.ms + DAY_MS) };
  return `/api/v1/export-download?token=${await signToken(claims, env.ANALYTICS_EXPORT_SECRET)}`;
}

/** Opens a link without reading the response's body. */
export async function open(link: string, clock: Clock, d1: D1Database = env.DB, method = "GET"): Promise<Response> {
  return startIsolate(clock).request(link, { method }, bound({ DB: d1 }));
}

/** The received text of a complete or an interrupted response. A client cannot distinguish them (workerd #6818). */
export async function readAll(response: Response): Promise<string> {
  const decoder = new TextDecoder();
  let text = "";
  try {
    for await (const chunk of response.body ?? []) text += decoder.decode(chunk, { stream: true });
  } catch {}
  return text;
}

/** The person's current export document. */
export async function documentOf(app: TestApp, distinctId: string, clock: Clock, d1?: D1Database) {
  const response = await open(await linkTo(app, distinctId, clock), clock, d1);
  const text = await response.text();
  if (response.status !== 200) throw new Error(`${response.status}: ${text}`);
  return readDocument(text);
}

/** The document without the list of its own openings. */
export const withoutOpenings = (document: ExportDocument): ExportDocument => ({
  ...document,
  person: document.person === null ? null : { ...document.person, exports: [] },
});

/** The audit rows of an id, in order. */
export async function auditOf(app: TestApp, distinctId: string): Promise<string[]> {
  const { results } = await env.DB.prepare(
    "SELECT action FROM export_audit WHERE environment_id = ? AND distinct_id = ? ORDER BY seq",
  )
    .bind(app.environments.live.id, distinctId)
    .all<{ action: string }>();
  return results.map((row) => row.action);
}

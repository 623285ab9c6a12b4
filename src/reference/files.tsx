import { exportDocumentSchema } from "../exports/responses.ts";
import type { ReferenceFile } from "../http/reference-file.ts";
import { apiDocument } from "./api-document.ts";
import { ORIGIN_WRITTEN } from "./origin.ts";
import { Page } from "./page.tsx";

/** The whole reference, for scripts/reference.mjs: made of the schemas before the Worker is built, which holds none of this. */
export function referenceFiles(): Readonly<Record<ReferenceFile, string>> {
  return {
    "openapi.json": JSON.stringify(apiDocument()),
    "export-document.schema.json": JSON.stringify(exportDocumentSchema()),
    "docs.html": `<!DOCTYPE html>${<Page origin={ORIGIN_WRITTEN} />}`,
  };
}

import { exportDocumentSchema } from "../api/exports/export-document.ts";
import type { ReferenceFile } from "../http/factory.ts";
import { apiDocument } from "./api-document.ts";

/**
 * Returns the files of the reference, for scripts/reference.mjs. They are generated before the build and are not part of the
 * Worker.
 */
export function referenceFiles(): Readonly<Record<ReferenceFile, string>> {
  return {
    "openapi.json": JSON.stringify(apiDocument()),
    "export-document.schema.json": JSON.stringify(exportDocumentSchema()),
  };
}

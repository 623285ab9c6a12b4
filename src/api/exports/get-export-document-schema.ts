import * as z from "zod";
import { referenceFile } from "../../http/factory.ts";
import { words } from "../../lib/words.ts";
import { open } from "../access.ts";
import { operation } from "../operation.ts";

export default operation({
  id: "getExportDocumentSchema",
  method: "get",
  path: "/api/v1/export-document.schema.json",
  tag: "People",
  access: open(),
  ...(WITH_REFERENCE && {
    output: () =>
      z
        .looseObject({
          $schema: z
            .string()
            .meta(words("The dialect of JSON Schema.", "https://json-schema.org/draft/2020-12/schema")),
        })
        .meta({ id: "JsonSchemaDocument" }),
    summary: "Get the JSON Schema of the export document",
    description: "Returns the JSON Schema of the document that `downloadExport` returns.",
    returns: "The schema, JSON Schema 2020-12.",
    example: () => ({ output: { $schema: "https://json-schema.org/draft/2020-12/schema", type: "object" } }),
  }),
  handler: async (c) =>
    c.body(await referenceFile(c.env, "export-document.schema.json"), 200, { "Content-Type": "application/json" }),
});

import * as z from "zod";
import { referenceFile } from "../../http/factory.ts";
import { words } from "../../lib/words.ts";
import { open } from "../access.ts";
import { operation } from "../operation.ts";

export default operation({
  id: "getOpenApi",
  method: "get",
  path: "/api/v1/openapi.json",
  tag: "Service",
  access: open(),
  ...(WITH_REFERENCE && {
    output: () =>
      z
        .looseObject({
          openapi: z.string().meta(words("The version of OpenAPI.", "3.1.1")),
          info: z.looseObject({}).meta(words("What the document describes.", { title: "Purser", version: "0.3.0" })),
          paths: z.looseObject({}).meta(words("The operations, by path.", {})),
        })
        .meta({ id: "OpenApiDocument" }),
    summary: "Get the OpenAPI document",
    description: "The whole API as OpenAPI 3.1, generated from the schemas that validate requests.",
    returns: "The document.",
    example: () => ({ output: { openapi: "3.1.1", info: { title: "Purser", version: "0.3.0" }, paths: {} } }),
  }),
  handler: async (c) => c.body(await referenceFile(c.env, "openapi.json"), 200, { "Content-Type": "application/json" }),
});

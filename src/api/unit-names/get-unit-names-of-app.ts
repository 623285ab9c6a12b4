import * as z from "zod";
import { readUnitNames } from "../../books/prices/unit-names.ts";
import { mode } from "../../http/fields.ts";
import { lazy } from "../../http/lazy.ts";
import { words } from "../../lib/words.ts";
import { administration } from "../access.ts";
import { appParams } from "../common.ts";
import { operation } from "../operation.ts";
import { exampleUnitNames, unitNamesOutput } from "./unit-names-output.ts";

export default operation({
  id: "getUnitNamesOfApp",
  method: "get",
  path: "/api/v1/admin/apps/{appId}/unit-names",
  tag: "Administration",
  access: administration("read", "argument"),
  params: appParams,
  query: lazy(() => z.object({ mode: mode.meta(words("The mode whose names they are.")) })),
  ...(WITH_REFERENCE && {
    output: () => unitNamesOutput,
    summary: "Get the names of an application's units",
    description: "Returns the names of one mode.",
    returns: "The names.",
    example: () => ({ output: exampleUnitNames }),
  }),
  handler: (admin, { params, query }) => readUnitNames(admin, params.appId, query.mode),
});

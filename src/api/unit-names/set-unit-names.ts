import * as z from "zod";
import { setUnitNames } from "../../books/prices/unit-names.ts";
import { mode } from "../../http/fields.ts";
import { lazy } from "../../http/lazy.ts";
import { administration } from "../access.ts";
import { appParams } from "../common.ts";
import { operation } from "../operation.ts";
import { exampleUnitNames, unitNames, unitNamesOutput } from "./unit-names-output.ts";

export default operation({
  id: "setUnitNames",
  method: "put",
  path: "/api/v1/admin/apps/{appId}/unit-names",
  tag: "Administration",
  access: administration("write", "argument"),
  params: appParams,
  body: lazy(() => z.strictObject({ mode, names: unitNames }).meta({ id: "SetUnitNames" })),
  ...(WITH_REFERENCE && {
    output: () => unitNamesOutput,
    summary: "Name the units",
    description:
      "Replaces the names that people read instead of the units, such as credits for `count`. The balance element, React, the " +
      "dashboard and statements show them. The API keeps its units.",
    returns: "The names.",
    example: () => ({ body: { mode: "live", ...exampleUnitNames }, output: exampleUnitNames }),
  }),
  handler: (admin, { params, body }) => setUnitNames(admin, params.appId, body),
});

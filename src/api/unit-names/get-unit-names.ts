import { getUnitNames } from "../../books/prices/unit-names.ts";
import { anyKey } from "../access.ts";
import { operation } from "../operation.ts";
import { exampleUnitNames, unitNamesOutput } from "./unit-names-output.ts";

export default operation({
  id: "getUnitNames",
  method: "get",
  path: "/api/v1/unit-names",
  tag: "Credits",
  access: anyKey(),
  headers: { "cache-control": "A page may keep the names for five minutes." },
  ...(WITH_REFERENCE && {
    output: () => unitNamesOutput,
    summary: "Get the names of the units",
    description: "Returns the names under which a page shows the units. A publishable key needs no user's token.",
    returns: "The names.",
    example: () => ({ output: exampleUnitNames }),
  }),
  handler: (ctx, _input, { setHeader }) => {
    setHeader("cache-control", "private, max-age=300");
    // The key says whose names they are, and a browser would look at the URL alone.
    setHeader("vary", "authorization");
    return getUnitNames(ctx);
  },
});

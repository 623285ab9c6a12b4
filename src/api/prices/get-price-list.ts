import * as z from "zod";
import { readPriceList } from "../../books/prices/price-lists.ts";
import { mode } from "../../http/fields.ts";
import { lazy } from "../../http/lazy.ts";
import { words } from "../../lib/words.ts";
import { administration } from "../access.ts";
import { operation } from "../operation.ts";
import { examplePriceList, priceList, priceListParams } from "./price-rules.ts";

export default operation({
  id: "getPriceList",
  method: "get",
  path: "/api/v1/admin/apps/{appId}/prices/{version}",
  tag: "Administration",
  access: administration("read", "argument"),
  params: priceListParams,
  query: lazy(() => z.object({ mode: mode.meta(words("The mode whose prices they are.")) })),
  errors: ["not_found"],
  ...(WITH_REFERENCE && {
    output: () => priceList,
    summary: "Get a version of the price list",
    description: "Returns a version with its rules and costs.",
    returns: "The version.",
    example: () => ({ output: examplePriceList }),
  }),
  handler: (admin, { params, query }) => readPriceList(admin, params.appId, query.mode, params.version),
});

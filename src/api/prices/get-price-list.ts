import * as z from "zod";
import { readPriceList } from "../../books/prices/price-lists.ts";
import { mode } from "../../http/fields.ts";
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
  query: z.lazy(() => z.object({ mode: mode.describe("The mode whose prices they are.") })),
  output: () => priceList,
  errors: ["not_found"],
  summary: "Get a version of the price list",
  description: "Returns a version with its rules and costs.",
  returns: "The version.",
  example: () => ({ output: examplePriceList }),
  handler: (admin, { params, query }) => readPriceList(admin, params.appId, query.mode, params.version),
});

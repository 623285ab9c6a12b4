import * as z from "zod";
import { deletePriceList } from "../../books/prices/change-prices.ts";
import { mode } from "../../http/fields.ts";
import { lazy } from "../../http/lazy.ts";
import { words } from "../../lib/words.ts";
import { administration } from "../access.ts";
import { operation } from "../operation.ts";
import { examplePriceList, priceList, priceListParams } from "./price-rules.ts";

export default operation({
  id: "deletePriceList",
  method: "delete",
  path: "/api/v1/admin/apps/{appId}/prices/{version}",
  tag: "Administration",
  access: administration("write", "argument"),
  params: priceListParams,
  query: lazy(() => z.object({ mode: mode.meta(words("The mode whose prices they are.", "live")) })),
  errors: ["not_found"],
  ...(WITH_REFERENCE && {
    output: () => priceList,
    summary: "Delete a scheduled version of the price list",
    description: "Deletes a version before its `effectiveAt`. Its number is never used again.",
    returns: "The deleted version.",
    example: () => ({ output: { ...examplePriceList, effectiveAt: "2026-02-01T00:00:00.000Z" } }),
  }),
  handler: (admin, { params, query }) => deletePriceList(admin, params.appId, query.mode, params.version),
});

import { setPrices } from "../../books/prices/change-prices.ts";
import { administration } from "../access.ts";
import { appParams } from "../common.ts";
import { operation } from "../operation.ts";
import { examplePriceList, newPriceList, priceList } from "./price-rules.ts";

export default operation({
  id: "setPrices",
  method: "put",
  path: "/api/v1/admin/apps/{appId}/prices",
  tag: "Administration",
  access: administration("write", "argument"),
  params: appParams,
  body: newPriceList,
  errors: ["changed_meanwhile"],
  warns: true,
  ...(WITH_REFERENCE && {
    output: () => priceList,
    summary: "Set the price list",
    description:
      "Makes a version of the price list, which prices the meters of events, holds and plans. A version never changes: what " +
      "was recorded keeps its price. A list that equals the newest version makes none, and returns that version. Of the versions " +
      "whose `effectiveAt` has come, the latest is in force. An event that no rule prices is `price_not_found`: it is never free by " +
      "mistake. Put a last rule without `event` and `model` for a price of everything else.",
    returns: "The version.",
    example: () => {
      const { mode, rules } = examplePriceList;
      return { body: { mode, rules }, output: examplePriceList };
    },
  }),
  handler: (admin, { params, body }) => setPrices(admin, params.appId, body),
});

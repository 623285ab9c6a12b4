import * as z from "zod";
import { listPriceLists } from "../../books/prices/price-lists.ts";
import { cursor, mode, pageLimit } from "../../http/fields.ts";
import { administration } from "../access.ts";
import { appParams, EXAMPLE } from "../common.ts";
import { operation } from "../operation.ts";

export default operation({
  id: "listPriceLists",
  method: "get",
  path: "/api/v1/admin/apps/{appId}/prices",
  tag: "Administration",
  access: administration("read", "argument"),
  params: appParams,
  query: z.lazy(() =>
    z.object({ mode: mode.describe("The mode whose prices they are."), limit: pageLimit("versions"), cursor }),
  ),
  output: () =>
    z
      .strictObject({
        inForce: z.int().nullable().meta({ description: "The version in force; null for none.", example: 4 }),
        versions: z
          .array(
            z.strictObject({
              version: z.int().meta({ description: "Counts from 1.", example: 4 }),
              effectiveAt: z.string().meta({
                format: "date-time",
                description: "When it takes force, or took it.",
                example: EXAMPLE.createdAt,
              }),
              createdAt: z
                .string()
                .meta({ format: "date-time", description: "When it was made.", example: EXAMPLE.createdAt }),
              note: z.string().nullable().meta({ description: "The note.", example: "New prices of gpt-5" }),
              rules: z.int().meta({ description: "How many rules it has.", example: 2 }),
            }),
          )
          .describe("The newest first."),
        nextCursor: z.string().nullable().describe("The `cursor` of the next page; null on the last one."),
      })
      .meta({ id: "PriceListPage" }),
  summary: "List the versions of the price list",
  description: "Returns the versions of one mode, the newest first, without their rules.",
  returns: "The versions.",
  example: () => ({
    output: {
      inForce: 4,
      versions: [{ version: 4, effectiveAt: EXAMPLE.createdAt, createdAt: EXAMPLE.createdAt, note: null, rules: 2 }],
      nextCursor: null,
    },
  }),
  handler: (admin, { params, query }) => listPriceLists(admin, params.appId, query),
});

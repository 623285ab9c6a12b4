import * as z from "zod";
import { listPriceLists } from "../../books/prices/price-lists.ts";
import { cursor, mode, pageLimit } from "../../http/fields.ts";
import { lazy } from "../../http/lazy.ts";
import { words } from "../../lib/words.ts";
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
  query: lazy(() =>
    z.object({
      mode: mode.meta(words("The mode whose prices they are.", "live")),
      limit: pageLimit("versions"),
      cursor,
    }),
  ),
  ...(WITH_REFERENCE && {
    output: () =>
      z
        .strictObject({
          inForce: z.int().nullable().meta(words("The version in force; null for none.", 4)),
          versions: z
            .array(
              z.strictObject({
                version: z.int().meta(words("Counts from 1.", 4)),
                effectiveAt: z
                  .string()
                  .meta({ format: "date-time", ...words("When it takes force, or took it.", EXAMPLE.createdAt) }),
                createdAt: z.string().meta({ format: "date-time", ...words("When it was made.", EXAMPLE.createdAt) }),
                note: z.string().nullable().meta(words("The note.", "New prices of gpt-5")),
                rules: z.int().meta(words("How many rules it has.", 2)),
              }),
            )
            .meta(words("The newest first.")),
          nextCursor: z.string().nullable().meta(words("The `cursor` of the next page; null on the last one.", null)),
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
  }),
  handler: (admin, { params, query }) => listPriceLists(admin, params.appId, query),
});

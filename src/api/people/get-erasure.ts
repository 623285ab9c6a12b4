import { readErasure } from "../../erasure/receipt.ts";

import { secretKey } from "../access.ts";
import { operation } from "../operation.ts";
import { erasure, erasureOutput, erasureParams } from "./people-shapes.ts";

export default operation({
  id: "getErasure",
  method: "get",
  path: "/api/v1/erasures/{erasureId}",
  tag: "People",
  access: secretKey({ rejects: "requires_secret_key" }),
  params: erasureParams,
  errors: ["not_found"],
  ...(WITH_REFERENCE && {
    output: () => erasureOutput,
    summary: "Get an erasure and its receipt",
    description:
      "Returns an erasure: the erased and the kept data, the time, the key and the reason. It contains no personal " +
      "data.",
    returns: "The erasure.",
    example: () => ({ output: erasure }),
  }),
  handler: (ctx, { params }) => readErasure(ctx, params.erasureId),
});

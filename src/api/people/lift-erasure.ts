import { liftErasure } from "../../erasure/lift.ts";

import { secretKey } from "../access.ts";
import { operation } from "../operation.ts";
import { erasure, erasureOutput, erasureParams } from "./people-shapes.ts";

export default operation({
  id: "liftErasure",
  method: "post",
  path: "/api/v1/erasures/{erasureId}/lift",
  tag: "People",
  access: secretKey(),
  params: erasureParams,
  errors: ["not_found", "changed_meanwhile"],
  idempotent: true,
  ...(WITH_REFERENCE && {
    output: () => erasureOutput,
    summary: "Lift an erasure",
    description:
      "Allows the ids of an erasure again. Erased data is not restored. A running erasure cannot be lifted yet.",
    returns: "The erasure.",
    example: () => ({ output: { ...erasure, liftedAt: "2026-03-01T10:00:00.000Z" } }),
  }),
  handler: (ctx, { params }) => liftErasure(ctx, params.erasureId),
});

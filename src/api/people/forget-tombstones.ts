import * as z from "zod";
import { forgetTombstones } from "../../erasure/lift.ts";
import { mode } from "../../http/fields.ts";
import { lazy } from "../../http/lazy.ts";
import { words } from "../../lib/words.ts";
import { administration } from "../access.ts";
import { appParams } from "../common.ts";
import { operation } from "../operation.ts";

export default operation({
  id: "forgetTombstones",
  method: "post",
  path: "/api/v1/admin/apps/{appId}/tombstones/forget",
  tag: "Administration",
  access: administration(null),
  params: appParams,
  body: lazy(() =>
    z
      .strictObject({
        mode,
        fingerprint: z
          .string()
          .min(1)
          .max(100)
          .meta(
            words("The fingerprint of the lost secret: `fingerprint` in the receipts of its erasures.", "pP3xWc1Jm0aQ"),
          ),
      })
      .meta({ id: "ForgetTombstones" }),
  ),
  errors: ["changed_meanwhile"],
  ...(WITH_REFERENCE && {
    output: () =>
      z
        .strictObject({ forgotten: z.int().nonnegative().meta(words("How many tombstones were deleted.", 12)) })
        .meta({ id: "ForgottenTombstones" }),
    summary: "Delete the tombstones of a lost secret",
    description:
      "If there are erased ids whose `ERASURE_SECRET` is not set, the environment rejects every write for an id, " +
      "because it cannot tell whether that id was erased. If the secret is lost, this call deletes their tombstones: " +
      "the ids can be used again, as after a lift.",
    returns: "The number of deleted tombstones.",
    example: () => ({ body: { mode: "live", fingerprint: "pP3xWc1Jm0aQ" }, output: { forgotten: 12 } }),
  }),
  handler: (admin, { params, body }) => forgetTombstones(admin, params.appId, body),
});

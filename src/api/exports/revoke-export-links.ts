import * as z from "zod";
import { revokeLinks } from "../../exports/end-links.ts";
import { identifier } from "../../http/fields.ts";
import { lazy } from "../../http/lazy.ts";
import { words } from "../../lib/words.ts";
import { secretKey } from "../access.ts";
import { operation } from "../operation.ts";
import { exampleUserId } from "./export-document.ts";

export const revokeLinksInput = lazy(() =>
  z
    .strictObject({ distinctId: identifier().meta(words("The id that the links were created for.", "user_42")) })
    .meta({ id: "RevokeExportLinks" }),
);

export default operation({
  id: "revokeExportLinks",
  method: "post",
  path: "/api/v1/export-person/revoke",
  tag: "People",
  access: secretKey({ rejects: "requires_secret_key" }),
  body: revokeLinksInput,
  errors: ["export_unavailable"],
  writesForId: "silent",
  idempotent: true,
  ...(WITH_REFERENCE && {
    output: () =>
      z
        .strictObject({ revoked: z.int().nonnegative().meta(words("The links that were valid until now.", 1)) })
        .meta({ id: "RevokedExportLinks" }),
    summary: "Revoke a person's download links",
    description:
      "Ends every link that was created for this id until now. From then on, such a link is rejected like an expired " +
      "one. A download that has begun is finished. Links for other ids of the person stay valid.",
    returns: "How many valid links were ended.",
    example: () => ({ body: { distinctId: exampleUserId }, output: { revoked: 1 } }),
  }),
  handler: (ctx, { body }) => revokeLinks(ctx, body),
});

import * as z from "zod";
import { createLink } from "../../exports/create-link.ts";
import { identifier } from "../../http/fields.ts";
import { lazy } from "../../http/lazy.ts";
import { time } from "../../http/output-fields.ts";
import { PERSON } from "../../http/wrong-names.ts";
import { words } from "../../lib/words.ts";
import { secretKey } from "../access.ts";
import { operation } from "../operation.ts";
import { exampleUserId, format } from "./export-document.ts";

export const exportPersonInput = lazy(() =>
  z
    .strictObject({
      distinctId: identifier().meta(
        words("Any id of the person: one that your analytics, credits or consents use.", "user_42"),
      ),
    })
    .meta({ id: "ExportPerson", wrongNames: { distinctId: PERSON } }),
);

const exportPersonOutput = /* @__PURE__ */ lazy(() =>
  z
    .strictObject({
      downloadUrl: z
        .string()
        .meta({ format: "uri" })
        .meta(
          words(
            "Anyone with this URL can download the document until the URL expires.",
            "https://purser.example.com/api/v1/export-download?token=eyJhcHBJZCI6ImFwcF8x4oCmIn0.c2lnbmF0dXJl",
          ),
        ),
      expiresAt: time.meta(words("When it expires.", "2026-01-16T12:00:00.000Z")),
      format,
    })
    .meta({ id: "ExportLink" }),
);

export default operation({
  id: "createExportLink",
  method: "post",
  path: "/api/v1/export-person",
  tag: "People",
  access: secretKey({ rejects: "requires_secret_key" }),
  body: exportPersonInput,
  errors: ["export_unavailable"],
  writesForId: "silent",
  idempotent: true,
  ...(WITH_REFERENCE && {
    output: () => exportPersonOutput,
    summary: "Create a download link for a person's data",
    description:
      "Creates a link that is valid for 24 hours and needs no key. Give it only to the person. No data is read yet, " +
      "so a link is returned even if nothing is stored. The request is recorded and appears in the export.",
    returns: "The link.",
    example: () => ({
      body: { distinctId: exampleUserId },
      output: {
        downloadUrl: "https://purser.example.com/api/v1/export-download?token=eyJhcHBJZCI6ImFwcF8x4oCmIn0.c2lnbmF0dXJl",
        expiresAt: "2026-01-16T12:00:00.000Z",
        format: "json",
      },
    }),
  }),
  handler: (ctx, { body }, { origin }) => createLink(ctx, { ...body, requestOrigin: origin }),
});

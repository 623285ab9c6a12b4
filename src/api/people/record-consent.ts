import * as z from "zod";
import { identifier, shortText, timestamp } from "../../http/fields.ts";
import { lazy } from "../../http/lazy.ts";
import { PERSON, TIME } from "../../http/wrong-names.ts";
import { words } from "../../lib/words.ts";
import { recordConsent } from "../../people/consent.ts";

import { secretKeyOrUser } from "../access.ts";
import { operation } from "../operation.ts";
import { consentEntry, decision } from "./people-shapes.ts";

const distinctId = lazy(() => identifier().meta(words("Any distinct id of the person.", "user_42")));

const exampleConsent = {
  consentId: "con_2gYb6nR1tVj8mXq4sKc0Wd",
  distinctId: "user_42",
  purpose: "analytics",
  decision: "granted",
  method: "banner",
  noticeVersion: "2026-01",
  source: null,
  gpc: false,
  isDevice: false,
  occurredAt: "2026-01-16T08:30:00.000Z",
  receivedAt: "2026-01-16T08:30:00.412Z",
};

export default operation({
  id: "recordConsent",
  method: "post",
  path: "/api/v1/consent",
  tag: "People",
  access: secretKeyOrUser([], { named: "distinctId" }),
  body: lazy(() =>
    z
      .strictObject({
        distinctId,
        purpose: identifier().meta(words("The purpose that was asked for, such as `analytics`.", "analytics")),
        decision,
        method: shortText().optional().meta(words("How the decision was given, such as `banner`.", "banner")),
        noticeVersion: shortText().optional().meta(words("The version of the notice that was shown.", "2026-01")),
        source: shortText().optional().meta(words("Where it was given, such as a page.", "web")),
        gpc: z.boolean().optional().meta(words("Whether the browser sent Global Privacy Control.", false)),
        isDevice: z
          .boolean()
          .optional()
          .meta(
            words(
              "Whether the consent is of an anonymous visitor, and the id is an SDK's device id. Otherwise the id is a user from then on, and no publishable key can link it. Only with a secret key.",
              false,
            ),
          ),
        occurredAt: timestamp
          .optional()
          .meta(
            words(
              "When the decision was given. Default: now. With a publishable key at most a day ago and 5 minutes ahead; `denied` and `withdrawn` are stored anyway, with the time of arrival.",
              "2026-01-16T09:30:00+01:00",
            ),
          ),
      })
      .meta({
        id: "RecordConsent",
        wrongNames: {
          distinctId: PERSON,
          purpose: "type name",
          decision: "status consent choice granted value",
          occurredAt: TIME,
        },
      }),
  ),
  warns: true,
  writesForId: "rejected",
  ...(WITH_REFERENCE && {
    output: () => consentEntry,
    summary: "Record a consent decision",
    description:
      "Adds an entry to the person's consent log. Entries cannot be changed or removed. Every export contains them. A " +
      "browser may call it with a publishable key and the user's token in `X-User-Token`, for that user only.",
    returns: "The stored entry.",
    example: () => ({
      body: {
        distinctId: "user_42",
        purpose: "analytics",
        decision: "granted",
        method: "banner",
        noticeVersion: "2026-01",
        gpc: false,
        occurredAt: "2026-01-16T09:30:00+01:00",
      },
      output: exampleConsent,
    }),
  }),
  handler: (ctx, { body }) => recordConsent(ctx, body),
});

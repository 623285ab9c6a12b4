import { recordConsent } from "../../people/consent.ts";
import { consentEntry } from "../../people/responses.ts";
import { consentInput } from "../../people/schemas.ts";
import { secretKeyOrUser } from "../access.ts";
import { operation } from "../operation.ts";

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
  access: secretKeyOrUser([], "distinctId"),
  body: consentInput,
  output: () => consentEntry,
  warns: true,
  writesForId: "refused",
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
  handler: (ctx, { body }) => recordConsent(ctx, body),
});

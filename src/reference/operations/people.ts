import { consentEntry } from "../../people/responses.ts";
import { consentInput } from "../../people/schemas.ts";
import type { Operation } from "../operation.ts";

const entry = {
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

export const peopleOperations: readonly Operation[] = [
  {
    id: "recordConsent",
    method: "post",
    path: "/api/v1/consent",
    tag: "People",
    summary: "Record a consent decision",
    description:
      "Adds an entry to the person's consent log. Entries cannot be changed or removed. Every export contains them. A " +
      "browser may call it with a publishable key and the user's token in `X-User-Token`, for that user only.",
    access: "end-user",
    body: {
      schema: consentInput,
      example: {
        distinctId: "user_42",
        purpose: "analytics",
        decision: "granted",
        method: "banner",
        noticeVersion: "2026-01",
        gpc: false,
        occurredAt: "2026-01-16T09:30:00+01:00",
      },
    },
    success: { description: "The stored entry.", schema: consentEntry, example: entry },
    errors: [],
    writesForId: "refused",
  },
];

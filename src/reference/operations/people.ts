import { consentEntry } from "../../people/responses.ts";
import { consentInput } from "../../people/schemas.ts";
import type { Operation } from "../describe.ts";

const entry = {
  consentId: "con_2gYb6nR1tVj8mXq4sKc0Wd",
  distinctId: "user_42",
  purpose: "analytics",
  decision: "granted",
  method: "banner",
  noticeVersion: "2026-01",
  source: null,
  gpc: false,
  occurredAt: "2026-01-16T08:30:00.000Z",
  receivedAt: "2026-01-16T08:30:00.412Z",
};

export const peopleOperations: readonly Operation[] = [
  {
    id: "recordConsent",
    method: "post",
    path: "/api/v1/consent",
    tag: "People",
    summary: "Record a decision about consent",
    description:
      "Appends one entry to the person's consent log, which nothing changes or removes afterwards and every export " +
      "holds. May be called from a browser with a publishable key, for the end-user whom `X-User-Token` proves.",
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
    success: { description: "The entry, as it is kept.", schema: consentEntry, example: entry },
    errors: [],
  },
];

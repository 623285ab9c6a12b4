import * as z from "zod";
import { erasePersonOutput, erasureOutput, forgetTombstonesOutput } from "../../erasure/responses.ts";
import { erasePersonInput, forgetTombstonesInput } from "../../erasure/schemas.ts";
import { consentEntry } from "../../people/responses.ts";
import { consentInput } from "../../people/schemas.ts";
import type { Operation } from "../operation.ts";
import { appParams, ofAdministration } from "./common.ts";

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

const erasureId = "era_5tQw8nR2sVj7mXb4cKd1Lp";
const counts = {
  erased: { analytics: 512, consent: 3, ids: 2, properties: 1, messages: 12, customers: 1, refusals: 0 },
  pseudonymised: {
    balances: 2,
    ledger: 41,
    metering: 38,
    reservations: 4,
    recurring: 1,
    adjustments: 0,
    refunds: 1,
    exports: 2,
  },
  revoked: { tokens: 1250 },
};
const erasureParams = z.object({ erasureId: z.string().describe("The erasure's id.") });
const erasure = {
  erasureId,
  status: "completed",
  distinctIdCount: 2,
  ...counts,
  reason: "request",
  keepConsent: false,
  by: "key_9aXw2bYc3dZe4fAg5hBi6j",
  fingerprint: "pP3xWc1Jm0aQ",
  startedAt: "2026-01-16T08:30:00.000Z",
  completedAt: "2026-01-16T08:30:00.215Z",
  recoverableUntil: "2026-02-15T08:30:00.215Z",
  liftedAt: null,
};

/** Consent, and the erasure of a person. */
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
    success: { description: "The stored entry.", schema: consentEntry, example: exampleConsent, warns: true },
    errors: [],
    writesForId: "refused",
  },
  {
    id: "erasePerson",
    method: "post",
    path: "/api/v1/erase-person",
    tag: "People",
    summary: "Erase a person",
    description:
      "Deletes the person's data, and removes their names from the books. Remaining credits are revoked, and open " +
      "reservations are released. From then on, writes for these ids are `person_erased`, and their analytics events " +
      "get the usual response but are not stored. Try it with `dryRun: true` first. A repeat returns the same erasure, " +
      "and continues it if it is still running.",
    access: "secret",
    body: { schema: erasePersonInput, example: { distinctId: "user_42", reason: "request" } },
    success: {
      description: "The erased data, or in a dry run the data that would be erased.",
      schema: erasePersonOutput,
      example: {
        erasureId,
        status: "completed",
        distinctIds: ["user_42", "0194685f-1b2c-7d3e-8f40-5a6b7c8d9e0f"],
        distinctIdCount: 2,
        ...counts,
      },
      replayable: true,
    },
    errors: ["changed_meanwhile", "erasure_unavailable"],
  },
  {
    id: "getErasure",
    method: "get",
    path: "/api/v1/erasures/{erasureId}",
    tag: "People",
    summary: "Get an erasure and its receipt",
    description:
      "Returns an erasure: the erased and the kept data, the time, the key and the reason. It contains no personal " +
      "data.",
    access: "secret",
    params: erasureParams,
    success: { description: "The erasure.", schema: erasureOutput, example: erasure },
    errors: ["not_found"],
  },
  {
    id: "liftErasure",
    method: "post",
    path: "/api/v1/erasures/{erasureId}/lift",
    tag: "People",
    summary: "Lift an erasure",
    description:
      "Allows the ids of an erasure again. Erased data is not restored. A running erasure cannot be lifted yet.",
    access: "secret",
    params: erasureParams,
    success: {
      description: "The erasure.",
      schema: erasureOutput,
      example: { ...erasure, liftedAt: "2026-03-01T10:00:00.000Z" },
    },
    errors: ["not_found", "changed_meanwhile"],
  },
  ...ofAdministration([
    {
      id: "forgetTombstones",
      method: "post",
      path: "/apps/{appId}/tombstones/forget",
      summary: "Delete the tombstones of a lost secret",
      description:
        "If there are erased ids whose `ERASURE_SECRET` is not set, the environment refuses every write for an id, " +
        "because it cannot tell whether that id was erased. If the secret is lost, this call deletes their tombstones: " +
        "the ids can be used again, as after a lift.",
      params: appParams,
      body: { schema: forgetTombstonesInput, example: { mode: "live", fingerprint: "pP3xWc1Jm0aQ" } },
      success: {
        description: "The number of deleted tombstones.",
        schema: forgetTombstonesOutput,
        example: { forgotten: 12 },
      },
      errors: ["changed_meanwhile"],
    },
  ]),
];

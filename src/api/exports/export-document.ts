import * as z from "zod";
import { debit, metersAndVersion, quantitiesOutput } from "../../books/amounts/amount-fields.ts";
import { mode } from "../../http/fields.ts";
import { lazy } from "../../http/lazy.ts";
import { time } from "../../http/output-fields.ts";
import { words } from "../../lib/words.ts";
import { balance, grantSource, ledgerEntry } from "../credits/credit-shapes.ts";
import { consentEntry } from "../people/people-shapes.ts";
import { recurringOutput } from "../recurring/recurring-shapes.ts";
import { userLimitOutput } from "../usage-limits/usage-limit-shapes.ts";

export const exampleUserId = "user_42";

export const format = /* @__PURE__ */ lazy(() => z.literal("json").meta(words("The format of the document.", "json")));

/** Properties of an event or a person: any JSON object, as it was sent. */
const properties = /* @__PURE__ */ lazy(() =>
  z.looseObject({}).meta({ additionalProperties: true, ...words("Any properties of the caller.", { plan: "pro" }) }),
);

const exportedBalance = /* @__PURE__ */ lazy(() =>
  balance
    .unwrap()
    .extend({
      source: grantSource.meta(words("Why the credits were granted.", "purchase")),
      externalRef: z
        .string()
        .nullable()
        .meta(words("The reference of the grant, such as a payment's id.", "order-1001")),
      notes: z
        .string()
        .nullable()
        .meta(words("The text that was stored with the grant. Null without one.", "Promised by support")),
    })
    .meta({ id: "ExportedBalance" }),
);

const exportedDistinctId = /* @__PURE__ */ lazy(() =>
  z
    .strictObject({
      distinctId: z
        .string()
        .meta(words("The id of the person, as your analytics, credits or consents use it.", "user_42")),
      linkedAt: time.meta(
        words("When it was linked. For the requested id: when it was first seen.", "2025-11-03T09:15:00.000Z"),
      ),
      via: z
        .enum(["identify", "alias"])
        .nullable()
        .meta(words("The kind of event that linked it. Null for the requested id.", "identify")),
      claimedBy: z
        .string()
        .nullable()
        .meta(words("The id of the person that it was linked to. Null for the requested id.", "user_42")),
      isVerified: z
        .boolean()
        .meta(words("Whether it was linked with a secret key. A link from a publishable key proves nothing.", false)),
    })
    .meta({ id: "ExportedDistinctId" }),
);

const exportAuditEntry = /* @__PURE__ */ lazy(() =>
  z
    .strictObject({
      action: z.enum(["minted", "opened", "completed", "failed"]).meta(words("What was done.", "minted")),
      distinctId: z
        .string()
        .meta(words("The id of the person, as your analytics, credits or consents use it.", "user_42")),
      tokenHash: z
        .string()
        .meta(
          words(
            "SHA-256 of the link's token, base64url. It identifies the link, and cannot open it.",
            "n4bQgYhMfWWaL-qgxVrQFaO_TxsrC4Is0V1sFbDwCgg",
          ),
        ),
      keyId: z
        .string()
        .nullable()
        .meta(
          words("The key that created the link. Null for actions of the link's holder.", "key_8tLf2mY4cJ7hWs1xNvQ9Ba"),
        ),
      occurredAt: time.meta(words("When it happened.", "2026-01-16T08:30:00.000Z")),
    })
    .meta({ id: "ExportAuditEntry" }),
);

const exportedNote = /* @__PURE__ */ lazy(() =>
  z
    .strictObject({
      distinctId: z.string().meta(words("The id of the person that the note is on.", "user_42")),
      text: z.string().meta(words("The note.", "Asked for an invoice by post")),
      createdAt: time.meta(words("When it was created.", "2026-01-16T08:30:00.000Z")),
    })
    .meta({ id: "ExportedNote" }),
);

const exportedPerson = /* @__PURE__ */ lazy(() =>
  z
    .strictObject({
      personId: z
        .string()
        .nullable()
        .meta(
          words(
            "The same in every export of the same id. Null when only credits, usage or consents are stored.",
            "per_3nWq8sT1yB6kZc0vLx5MdE",
          ),
        ),
      distinctIds: z
        .array(exportedDistinctId)
        .meta(words("The requested id, then the ids linked to it, and the ids linked to those; nearest first.")),
      properties: properties.meta(
        words(
          "The properties of the requested id. A property that it does not have is taken from the nearest linked id.",
          { email: "ada@example.com", plan: "pro" },
        ),
      ),
      createdAt: time.nullable().meta(words("When it was created.", "2025-11-03T09:15:00.000Z")),
      lastSeenAt: time
        .nullable()
        .meta(words("When it was last seen. Null without analytics.", "2026-01-15T11:58:21.407Z")),
      isIdentified: z.boolean().meta(words("Whether the person was identified.", true)),
      credits: z
        .strictObject({
          balances: z.array(exportedBalance).meta(words("By distinct id, then by balance id.")),
          ledger: z
            .array(ledgerEntry.unwrap().omit({ by: true }).meta({ id: "ExportedLedgerEntry" }))
            .meta(words("Oldest first.")),
          recurring: z.array(recurringOutput).meta(words("Recurring grants, including ended ones, oldest first.")),
        })
        .meta({ id: "ExportedCredits" })
        .meta(words("The balances.")),
      usageLimits: z
        .array(userLimitOutput)
        .meta(
          words(
            "The usage of each usage limit: of the requested id as a payer, then of the person's other ids and as a member.",
          ),
        ),
      notes: z
        .array(exportedNote)
        .meta(words("What operators noted about the person on the dashboard. Oldest first, one id after another.")),
      exports: z
        .array(exportAuditEntry)
        .meta(words("Who created and opened export links, and the results. Oldest first.")),
    })
    .meta({ id: "ExportedPerson" }),
);

const analyticsEvent = /* @__PURE__ */ lazy(() =>
  z
    .strictObject({
      uuid: z.string().meta(words("The event's UUID.", "0194685f-8a3c-7d11-9f2b-6c1d2e3f4a5b")),
      event: z.string().meta(words("The event's name.", "$pageview")),
      distinctId: z
        .string()
        .meta(words("The id of the person, as your analytics, credits or consents use it.", "user_42")),
      timestamp: time.meta(words("When it happened.", "2026-01-15T11:58:20.000Z")),
      receivedAt: time.meta(words("When Purser received it.", "2026-01-15T11:58:21.407Z")),
      isVerified: z
        .boolean()
        .meta(words("Whether it was sent with a secret key. An event from a publishable key proves nothing.", false)),
      properties,
    })
    .meta({ id: "AnalyticsEvent" }),
);

const meteringEvent = /* @__PURE__ */ lazy(() =>
  z
    .strictObject({
      role: z
        .enum(["payer", "member"])
        .meta(words("Whether the person paid for it, or used what another paid for.", "payer")),
      eventId: z.string().nullable().meta(words("The usage event's id. Null for a member.", "chat-2026-01-16-0001")),
      memberId: z
        .string()
        .nullable()
        .meta(words("The person as the member who used it. Null for none, and for somebody else.", null)),
      userId: z.string().nullable().meta(words("Your own id of the user. Null for a member.", "user_42")),
      event: z.string().meta(words("The event's name.", "chat.completed")),
      model: z.string().nullable().meta(words("The model. Null if the event has none.", "large-1")),
      quantities: quantitiesOutput.meta(words("The usage in each unit.")),
      ...metersAndVersion(),
      occurredAt: time.meta(words("When it happened.", "2026-01-16T08:30:00.000Z")),
      receivedAt: time.meta(words("When Purser received it.", "2026-01-16T08:30:00.120Z")),
      debits: z.array(debit).nullable().meta(words("The debits, in spending order. Null for a member.")),
      uncovered: quantitiesOutput
        .nullable()
        .meta(words("The quantities that no balance covered. Null when all are covered.")),
      properties: properties
        .nullable()
        .meta(words("Any properties of the caller. Null if there are none.", { plan: "pro" })),
    })
    .meta({ id: "MeteringEvent" }),
);

/** The export document of a person. Its lists are in order of arrival, one id after another. */
export const exportDocument = /* @__PURE__ */ lazy(() =>
  z
    .strictObject({
      format,
      exportedAt: time.meta(words("The document contains the state at this time.", "2026-01-15T12:00:00.000Z")),
      appId: z.string().meta(words("The application's id.", "app_3kDw9pX1sB6vMn0qTzR7Ge")),
      mode,
      distinctId: z.string().meta(words("The requested id.", "user_42")),
      person: exportedPerson.nullable().meta(words("Null when nothing is stored about this person.")),
      events: z
        .strictObject({
          analytics: z.array(analyticsEvent).meta(words("The analytics events.")),
          metering: z.array(meteringEvent).meta(words("The usage events.")),
        })
        .meta({ id: "ExportedEvents" })
        .meta(words("The events.", 1_200)),
      consentLog: z.array(consentEntry).meta(words("The consents.")),
    })
    .meta({ title: "Person export document" }),
);

export type ExportDocument = z.infer<typeof exportDocument>;

/** The document's JSON Schema. */
export function exportDocumentSchema(): object {
  return z.toJSONSchema(exportDocument);
}

import * as z from "zod";
import { debit, metersAndVersion, quantitiesOutput } from "../../books/amounts/amount-fields.ts";
import { mode } from "../../http/fields.ts";
import { time } from "../../http/output-fields.ts";
import { balance, grantSource, ledgerEntry } from "../credits/credit-shapes.ts";
import { consentEntry } from "../people/people-shapes.ts";
import { recurringOutput } from "../recurring/recurring-shapes.ts";
import { userLimitOutput } from "../usage-limits/usage-limit-shapes.ts";

export const exampleUserId = "user_42";

export const format = z.literal("json");

/** Properties of an event or a person: any JSON object, as it was sent. */
const properties = z.looseObject({}).meta({ additionalProperties: true });

const exportedBalance = z.lazy(() =>
  balance
    .unwrap()
    .extend({
      source: grantSource.describe("Why the credits were granted."),
      externalRef: z.string().nullable(),
      notes: z.string().nullable(),
    })
    .meta({ id: "ExportedBalance" }),
);

const exportedDistinctId = z.lazy(() =>
  z
    .strictObject({
      distinctId: z.string(),
      linkedAt: time.describe("When it was linked. For the requested id: when it was first seen."),
      via: z
        .enum(["identify", "alias"])
        .nullable()
        .describe("The kind of event that linked it. Null for the requested id."),
      claimedBy: z
        .string()
        .nullable()
        .describe("The id of the person that it was linked to. Null for the requested id."),
      isVerified: z
        .boolean()
        .describe("Whether it was linked with a secret key. A link from a publishable key proves nothing."),
    })
    .meta({ id: "ExportedDistinctId" }),
);

const exportAuditEntry = z.lazy(() =>
  z
    .strictObject({
      action: z.enum(["minted", "opened", "completed", "failed"]),
      distinctId: z.string(),
      tokenHash: z
        .string()
        .describe("SHA-256 of the link's token, base64url. It identifies the link, and cannot open it."),
      keyId: z.string().nullable().describe("The key that created the link. Null for actions of the link's holder."),
      occurredAt: time,
    })
    .meta({ id: "ExportAuditEntry" }),
);

const exportedPerson = z.lazy(() =>
  z
    .strictObject({
      personId: z
        .string()
        .nullable()
        .describe("The same in every export of the same id. Null when only credits, usage or consents are stored."),
      distinctIds: z
        .array(exportedDistinctId)
        .describe("The requested id, then the ids linked to it, and the ids linked to those; nearest first."),
      properties: properties.describe(
        "The properties of the requested id. A property that it does not have is taken from the nearest linked id.",
      ),
      createdAt: time.nullable(),
      lastSeenAt: time.nullable(),
      isIdentified: z.boolean(),
      credits: z
        .strictObject({
          balances: z.array(exportedBalance).describe("By distinct id, then by balance id."),
          ledger: z
            .array(ledgerEntry.unwrap().omit({ by: true }).meta({ id: "ExportedLedgerEntry" }))
            .describe("Oldest first."),
          recurring: z.array(recurringOutput).describe("Recurring grants, including ended ones, oldest first."),
        })
        .meta({ id: "ExportedCredits" }),
      usageLimits: z.array(userLimitOutput).describe("The usage of each usage limit, oldest limit first."),
      exports: z
        .array(exportAuditEntry)
        .describe("Who created and opened export links, and the results. Oldest first."),
    })
    .meta({ id: "ExportedPerson" }),
);

const analyticsEvent = z.lazy(() =>
  z
    .strictObject({
      uuid: z.string(),
      event: z.string(),
      distinctId: z.string(),
      timestamp: time,
      receivedAt: time,
      isVerified: z
        .boolean()
        .describe("Whether it was sent with a secret key. An event from a publishable key proves nothing."),
      properties,
    })
    .meta({ id: "AnalyticsEvent" }),
);

const meteringEvent = z.lazy(() =>
  z
    .strictObject({
      eventId: z.string(),
      userId: z.string(),
      event: z.string(),
      model: z.string().nullable(),
      quantities: quantitiesOutput,
      ...metersAndVersion(),
      occurredAt: time,
      receivedAt: time,
      debits: z.array(debit),
      uncovered: quantitiesOutput.nullable(),
      properties: properties.nullable(),
    })
    .meta({ id: "MeteringEvent" }),
);

/** The export document of a person. Its lists are in order of arrival, one id after another. */
export const exportDocument = z.lazy(() =>
  z
    .strictObject({
      format,
      exportedAt: time.describe("The document contains the state at this time."),
      appId: z.string(),
      mode,
      distinctId: z.string().describe("The requested id."),
      person: exportedPerson.nullable().describe("Null when nothing is stored about this person."),
      events: z
        .strictObject({ analytics: z.array(analyticsEvent), metering: z.array(meteringEvent) })
        .meta({ id: "ExportedEvents" }),
      consentLog: z.array(consentEntry),
    })
    .meta({ title: "Person export document" }),
);

export type ExportDocument = z.infer<typeof exportDocument>;

/** The document's JSON Schema. */
export function exportDocumentSchema(): object {
  return z.toJSONSchema(exportDocument);
}

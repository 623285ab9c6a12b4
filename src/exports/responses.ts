import * as z from "zod";
import { quantitiesOutput } from "../amounts/schemas.ts";
import { balance, debit, ledgerEntry } from "../ledger/responses.ts";
import { consentEntry } from "../people/responses.ts";

const time = z.string().meta({ format: "date-time" });
const format = z.literal("json");

export const exportPersonOutput = z.strictObject({
  downloadUrl: z.string().meta({ format: "uri" }).describe("Whoever holds it can download until it expires."),
  expiresAt: time,
  format,
});
export type ExportPersonOutput = z.infer<typeof exportPersonOutput>;

/** What a caller put into an event or said of a person: any JSON object, just as it came. */
const properties = z.record(z.string(), z.unknown());

const exportedBalance = balance
  .extend({
    source: z.enum(["purchase", "grant", "refund", "manual"]),
    externalRef: z.string().nullable(),
    notes: z.string().nullable(),
  })
  .meta({ id: "ExportedBalance" });

const exportedDistinctId = z
  .strictObject({
    distinctId: z.string(),
    linkedAt: time.describe("When it was linked; of the id that was asked for, when it was first seen."),
    via: z.enum(["identify", "alias"]).nullable().describe("What linked it; null for the id that was asked for."),
    claimedBy: z
      .string()
      .nullable()
      .describe("Which of the person's ids it was linked to; null for the one asked for."),
    isVerified: z.boolean().describe("Whether it was linked with a secret key. A publishable key's word is no proof."),
  })
  .meta({ id: "ExportedDistinctId" });

const exportAuditEntry = z
  .strictObject({
    action: z.enum(["minted", "opened", "completed", "failed"]),
    distinctId: z.string(),
    tokenHash: z.string().describe("SHA-256 of the link's token, base64url: tells links apart, opens none."),
    keyId: z.string().nullable().describe("The key that minted the link; null for what its holder did."),
    occurredAt: time,
  })
  .meta({ id: "ExportMotion" });

const exportedPerson = z
  .strictObject({
    personId: z
      .string()
      .nullable()
      .describe(
        "The same for the same id, always. Null for somebody of whom only credits, usage or consents are held.",
      ),
    distinctIds: z
      .array(exportedDistinctId)
      .describe("The id that was asked for, then those that were linked to it, and to those: the nearest first."),
    properties: properties.describe("The asked id's own; what it has none of by a name, from the nearest linked id."),
    createdAt: time.nullable(),
    lastSeenAt: time.nullable(),
    isIdentified: z.boolean(),
    credits: z.strictObject({
      balances: z.array(exportedBalance).describe("By distinct id, then by balance id."),
      ledger: z.array(ledgerEntry).describe("Oldest first."),
    }),
    exports: z.array(exportAuditEntry).describe("Who asked for this data, and what came of it. Oldest first."),
  })
  .meta({ id: "ExportedPerson" });

const analyticsEvent = z
  .strictObject({
    uuid: z.string(),
    event: z.string(),
    distinctId: z.string(),
    timestamp: time,
    receivedAt: time,
    isVerified: z
      .boolean()
      .describe("Whether it was sent with a secret key. A publishable key may say anything of anybody."),
    properties,
  })
  .meta({ id: "AnalyticsEvent" });

const meteringEvent = z
  .strictObject({
    eventId: z.string(),
    userId: z.string(),
    event: z.string(),
    model: z.string().nullable(),
    quantities: quantitiesOutput,
    occurredAt: time,
    receivedAt: time,
    debits: z.array(debit),
    uncovered: quantitiesOutput.nullable(),
    properties: properties.nullable(),
  })
  .meta({ id: "MeteringEvent" });

/** The person export document. Its lists are in order of arrival, id after id where a person has several. */
export const exportDocument = z
  .strictObject({
    format,
    exportedAt: time.describe("The one moment that all of the document shows."),
    appId: z.string(),
    mode: z.enum(["live", "test"]),
    distinctId: z.string().describe("The id that was asked for."),
    person: exportedPerson.nullable().describe("Null when nothing is held about this person."),
    events: z.strictObject({ analytics: z.array(analyticsEvent), metering: z.array(meteringEvent) }),
    consentLog: z.array(consentEntry),
  })
  .meta({ title: "Person export document" });
export type ExportDocument = z.infer<typeof exportDocument>;

/** The document's JSON Schema. */
export function exportDocumentSchema(): object {
  return z.toJSONSchema(exportDocument);
}

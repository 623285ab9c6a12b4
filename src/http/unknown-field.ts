import type * as z from "zod";
import { isJsonObject } from "../lib/json.ts";
import { nearest, plainName } from "../lib/nearest.ts";
import { knownFields } from "./known-fields.ts";

/** What other services call a field, by the names that it may have here. The first that the call knows is meant. */
const OTHER_NAMES: readonly (readonly [here: readonly string[], elsewhere: string])[] = [
  [
    ["userId", "distinctId"],
    "user customer customerId client clientId account accountId uid subject sub endUserId owner person userId distinctId",
  ],
  [["externalRef", "eventId"], "reference ref orderId paymentId chargeId invoiceId"],
  [
    ["refundRef", "externalRef", "eventId", "adjustmentId", "reservationId"],
    "id uuid idempotencyKey idempotencyId key requestId transactionId messageId refundId",
  ],
  [["event", "packName", "purpose"], "type name eventName eventType action feature meter"],
  [["quantities", "quantity", "delta", "amount"], "amount value quantity qty credits units usage tokensUsed cost"],
  [["share"], "amount quantity percent percentage fraction part"],
  [["packId", "packName"], "pack packName plan planId product productId creditPackId creditPack price priceId"],
  [["balanceId"], "balance creditId creditBalanceId credit"],
  [["occurredAt"], "timestamp time date at ts createdAt eventTime"],
  [["properties", "notes", "note"], "metadata meta props attributes data extra payload"],
  [
    ["expiresAt", "expiresInSeconds", "defaultExpiryDays"],
    "expires expiry expiration expiresIn expiresAt expireAt expiryDays expiresInDays validDays validUntil ttl timeout",
  ],
  [["notes", "note", "reason"], "notes note reason comment description memo text"],
  [["matches"], "match rules rule filter filters events models"],
  [["decision"], "status consent choice granted value"],
  [["onShortage"], "partial allowPartial overdraft onInsufficient"],
  [["setting"], "settings config endUserAuth"],
  [["name"], "title label appName displayName keyName"],
  [["kind"], "type keyType"],
  [["url"], "jwksUrl jwksUri uri endpoint"],
  [["issuer"], "iss"],
  [["audience"], "aud"],
  [["secret"], "sharedSecret signingKey key"],
  [["mode"], "environment env live test"],
];

function otherNameOf(name: string, known: readonly string[]): string | undefined {
  const plain = plainName(name);
  for (const [here, elsewhere] of OTHER_NAMES) {
    if (!elsewhere.split(" ").some((other) => plainName(other) === plain)) continue;
    const meant = here.find((field) => known.includes(field) && plainName(field) !== plain);
    if (meant !== undefined) return meant;
  }
  return undefined;
}

/** Whether a value is the request itself with a name around it, such as `{ data: { userId, … } }`. */
function isWrapper(value: unknown, known: readonly string[]): boolean {
  if (!isJsonObject(value)) return false;
  const plain = new Set(known.map(plainName));
  return (
    Object.keys(value)
      .slice(0, 20)
      .filter((name) => plain.has(plainName(name.slice(0, 60)))).length >= 2
  );
}

const namesAt = (schema: z.core.$ZodType, above: readonly string[]): string[] =>
  knownFields(schema)
    .filter((place) => place.slice(0, -1).join(".") === above.join("."))
    .map((place) => place.at(-1) ?? "");

/** The known field that has the whole request as its value, such as `{ event: { eventId, … } }`. */
export function wrapperIn(schema: z.core.$ZodType, value: unknown): string | null {
  const [only, ...others] = isJsonObject(value) ? Object.entries(value) : [];
  if (only === undefined || others.length > 0) return null;
  const known = namesAt(schema, []);
  return known.includes(only[0]) && isWrapper(only[1], known) ? only[0] : null;
}

interface Unknown {
  readonly schema: z.core.$ZodType;
  /** The levels above the field, without the positions in lists. */
  readonly above: readonly string[];
  readonly name: string;
  readonly value: unknown;
  /** Whether the route takes a bare list as well. */
  readonly takesList: boolean;
}

/** What an unknown field probably means, as an instruction. Null when that is not known. */
export function fieldMeant({ schema, above, name, value, takesList }: Unknown): string | null {
  const places = knownFields(schema);
  const known = namesAt(schema, above);
  const around = `without ${/^\w{1,40}$/.test(name) ? `\`${name}\`` : "anything"} around it`;
  if (above.length === 0 && Array.isArray(value) && takesList) return `send the list itself, ${around}`;
  if (above.length === 0 && isWrapper(value, known)) return `send what is in it, ${around}`;
  const near = nearest(name, known);
  if (near !== null && plainName(near) === plainName(name)) return `write \`${near}\``;
  const elsewhere = places.find((place) => plainName(place.at(-1) ?? "") === plainName(name));
  if (elsewhere !== undefined) return `write it ${placeText(elsewhere)}`;
  const meant = near ?? otherNameOf(name, known);
  if (meant !== undefined) return `write \`${meant}\``;
  const distant = places.find((place) => otherNameOf(name, place.slice(-1)) !== undefined);
  return distant === undefined ? null : `write it ${placeText(distant)}`;
}

function placeText(place: readonly string[]): string {
  const name = place.at(-1) ?? "";
  return place.length === 1
    ? `at the top level, as \`${name}\``
    : `into \`${place.slice(0, -1).join(".")}\`, as \`${name}\``;
}

/** The fields that an object may have at a place, for a message. */
export function fieldsAt(schema: z.core.$ZodType, above: readonly string[]): string {
  const names = namesAt(schema, above);
  if (names.length === 0) return "no fields are taken here";
  return `the fields are ${names.map((name) => `\`${name}\``).join(", ")}`;
}

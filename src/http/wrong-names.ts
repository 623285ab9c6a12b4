/** This file lists names of fields and paths that integrators write by mistake, and what to write instead. */

/** Returns a name without case and separators: `user_id`, `User-Id` and `userId` are equal. */
export const plainName = (name: string): string => name.toLowerCase().replace(/[^\p{L}\p{N}]/gu, "");

const USER = "user customer customerId client clientId account accountId uid subject sub owner distinctId";
const PERSON = "userId user customer customerId uid personId id";
const PACK = "pack packName plan planId product productId price priceId creditPackId";
const BALANCE = "id balance credit creditId creditBalanceId";
const REFERENCE = "reference ref orderId paymentId chargeId invoiceId";
const KEY = "id uuid key idempotencyKey idempotencyId requestId transactionId messageId";
const TEXT = "note notes comment description memo text metadata meta data reason";
const TIME = "timestamp time date at ts createdAt eventTime";
const EXPIRY = "expires expiry expiration expireAt expiresIn expiresInSeconds expiresInDays validUntil ttl";
const SECONDS = "expires expiry expiration expireAt expiresAt expiresIn seconds ttl timeout duration";

const quantities = {
  quantities: "amount value quantity qty credits units usage tokensUsed cost",
  "quantities.count": "count",
  "quantities.tokens": "tokens",
  "quantities.seconds": "seconds",
  "quantities.cents": "cents",
};
const used = { userId: USER, event: "type name eventName eventType action feature meter", ...quantities };
const recorded = {
  occurredAt: TIME,
  properties: "metadata meta props attributes data extra payload",
  onShortage: "partial allowPartial overdraft onInsufficient",
};
const setting = {
  setting: "settings config endUserAuth",
  "setting.type": "type",
  "setting.url": "url jwksUrl jwksUri uri",
  "setting.secret": "secret sharedSecret signingKey",
  "setting.issuer": "issuer iss",
  "setting.audience": "audience aud",
  "setting.claim": "claim",
  "setting.origins": "origins",
};
const item = { amount: "quantity value", matches: "match rule rules filter filters events models" };

/**
 * For each schema id, the right field names, each with the names that callers write instead. `a.b` is `b` within `a`; `/b` is
 * `b` at the top level; an entry that begins with `!` is the complete advice.
 */
export const WRONG_FIELDS: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  GrantCredits: {
    userId: USER,
    packId: PACK,
    quantity: "amount value qty credits units",
    externalRef: `${REFERENCE} ${KEY}`,
    expiresAt: EXPIRY,
    notes: TEXT,
  },
  RevokeBalance: { balanceId: BALANCE, reason: TEXT },
  RefundCredits: {
    userId: USER,
    externalRef: REFERENCE,
    refundRef: `refundId refund ${KEY}`,
    packId: PACK,
    "!write the part that is refunded into `share`, such as `{ part: 500, of: 1500 }` for 500 of 1,500 cents":
      "amount quantity percent percentage fraction",
    "share.part": "part",
    "share.of": "of",
    reason: TEXT,
  },
  AdjustBalance: { delta: "amount value quantity", note: TEXT, adjustmentId: KEY },
  PreviewDebit: { ...used, ...recorded },
  UsageEvent: { eventId: KEY, ...used, ...recorded },
  UsageQuantities: {
    "!name the unit of the packs that pay: `count`, `tokens`, `seconds` or `cents`":
      "credits credit units unit points amount",
    tokens: "token",
    seconds: "second",
    cents: "cent",
    "/event": "event",
    "/model": "model",
    "/properties": "properties",
  },
  CreateReservation: { reservationId: `holdId ${KEY}`, ...used, expiresInSeconds: SECONDS },
  ExtendReservation: { expiresInSeconds: SECONDS },
  CommitReservation: { eventId: KEY, ...quantities, ...recorded },
  RecordConsent: {
    distinctId: PERSON,
    purpose: "type name",
    decision: "status consent choice granted value",
    occurredAt: TIME,
  },
  ExportPerson: { distinctId: PERSON },
  ErasePerson: { distinctId: PERSON },
  CreateApp: { name: "title label appName displayName" },
  CreateApiKey: { kind: "type keyType", mode: "environment env", name: "title label keyName" },
  SetEndUserAuth: { mode: "environment env", ...setting },
  CreateCreditPack: { packName: "name title", defaultExpiryDays: `expiresAt expiryDays validDays ${EXPIRY}` },
  UpdateCreditPack: { packName: "name title", defaultExpiryDays: `expiresAt expiryDays validDays ${EXPIRY}` },
  CreateCreditPackItem: item,
  UpdateCreditPackItem: { packItemId: "id itemId", ...item },
  CreateWebhook: { url: "endpoint uri", types: "type events eventTypes" },
  ChangeWebhook: { url: "endpoint uri", types: "type events eventTypes", isEnabled: "enabled active" },
};

const adviceFor = (field: string): string => {
  const dot = field.indexOf(".");
  if (field.startsWith("!")) return field.slice(1);
  if (field.startsWith("/")) return `write it at the top level, as \`${field.slice(1)}\``;
  return dot === -1 ? `write \`${field}\`` : `write it into \`${field.slice(0, dot)}\`, as \`${field.slice(dot + 1)}\``;
};

/** Returns an instruction that says what to write instead of an unknown field. `known` are the fields of the schema. */
export function fieldAdvice(schemaId: string | undefined, known: readonly string[], name: string): string {
  const isMeant = (other: string): boolean => plainName(other) === plainName(name);
  const table = Object.entries(WRONG_FIELDS[schemaId ?? ""] ?? {});
  const field = known.find(isMeant) ?? table.find(([, names]) => names.split(" ").some(isMeant))?.[0];
  if (field !== undefined) return adviceFor(field);
  return known.length === 0
    ? "no fields are taken here"
    : `the fields are ${known.map((each) => `\`${each}\``).join(", ")}`;
}

/** This file lists names of fields and paths that integrators write by mistake, and what to write instead. */

/** Returns a name in lower case and without separators, so that `user_id`, `User-Id` and `userId` are equal. */
export const plainName = (name: string): string => name.toLowerCase().replace(/[^\p{L}\p{N}]/gu, "");

const USER_NAMES =
  "user customer customerId client clientId account accountId uid subject sub owner distinctId userName email";
const USER_ID = `userId ${USER_NAMES}`;
const PERSON = "userId user customer customerId uid personId id";
const PACK = "pack packName plan planId product productId price priceId creditPackId";
const BALANCE = "id balance credit creditId creditBalanceId";
const REFERENCE = "reference ref orderId paymentId chargeId invoiceId";
const KEY = "id uuid key idempotencyKey idempotencyId requestId transactionId messageId";
const TEXT = "note notes comment description memo text metadata meta data reason";
const TIME = "timestamp time date at ts createdAt eventTime";
const EXPIRY = "expires expiry expiration expireAt expiresIn expiresInSeconds expiresInDays validUntil ttl";
const EVERY_NAMES = "interval period frequency recurrence per window cycle";
const RULES = "match rule rules filter filters event events model models";
const BELOW = "threshold amount percent limit value when";
const SECONDS_NAMES = "expires expiry expiration expireAt expiresAt expiresIn seconds ttl timeout duration";

/** Names that several schemas share. */
const quantityNames = {
  quantities: "amount value quantity qty credits units usage tokensUsed cost",
  "quantities.count": "count",
  "quantities.tokens": "tokens",
  "quantities.seconds": "seconds",
  "quantities.cents": "cents",
};
const planNames = { "!ask `POST /api/v1/credits/plan`, which changes nothing": "dryRun preview simulate" };
const usageNames = {
  userId: USER_NAMES,
  event: "type name eventName eventType action feature meter",
  ...quantityNames,
};
const eventNames = {
  occurredAt: TIME,
  properties: "metadata meta props attributes data extra payload",
  onShortage: "partial allowPartial overdraft overage allowOverage allowNegative force onInsufficient",
};
const reservationNames = {
  "!the commit names it": "eventId",
  onExpiry: "onTimeout onExpire",
  "!a hold is all or nothing": "onShortage partial",
};
const settingNames = {
  setting: "settings config endUserAuth",
  "setting.type": "type",
  "setting.url": "url jwksUrl jwksUri uri",
  "setting.secret": "secret sharedSecret signingKey",
  "setting.issuer": "issuer iss",
  "setting.audience": "audience aud",
  "setting.claim": "claim",
  "setting.trustUnverified": "trustUnverified allowUnverified",
  "setting.trustUserWritten": "trustUserWritten allowUserWritten",
  "setting.origins": "origins",
};
const itemNames = { amount: "quantity value credits", matches: RULES };
const packNames = {
  packName: "name title",
  defaultExpiryDays: `expiresAt expiryDays validDays ${EXPIRY}`,
  '!write what the pack grants into `items`, such as `[{ amount: 1000, unit: "tokens" }]`':
    "amount quantity credits tokens count seconds cents",
  "!a pack has no price: your payment provider has it": "price priceId amountPaid currency",
};

/**
 * For each schema id, the right field names, each with the names that callers write instead. `a.b` is `b` within `a`; `/b` is
 * `b` at the top level; an entry that begins with `!` is the complete advice.
 */
export const WRONG_FIELDS: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  GrantCredits: {
    userId: USER_NAMES,
    packId: PACK,
    quantity: "amount value qty credits units tokens count seconds cents",
    "!the pack has its unit": "unit",
    externalRef: `${REFERENCE} ${KEY}`,
    expiresAt: EXPIRY,
    notes: TEXT,
  },
  RevokeBalance: {
    balanceId: BALANCE,
    reason: TEXT,
    "!this operation revokes a whole balance: `POST /api/v1/credits/refund` refunds a share of a payment":
      "amount quantity share",
    "!name the balance: `GET /api/v1/credits` lists the balances of a user": USER_ID,
  },
  RefundCredits: {
    userId: USER_NAMES,
    externalRef: REFERENCE,
    refundRef: `refundId refund ${KEY}`,
    packId: PACK,
    "!name the payment by the `externalRef` of its grant. `POST /api/v1/credits/revoke` revokes one balance":
      "balanceId balance",
    "!write the part that is refunded into `share`, such as `{ part: 500, of: 1500 }` for 500 of 1,500 cents":
      "amount quantity percent percentage fraction",
    "share.part": "part",
    "share.of": "of",
    reason: TEXT,
  },
  AdjustBalance: { delta: "amount value quantity", note: TEXT, adjustmentId: KEY },
  PreviewDebit: { ...usageNames, ...eventNames },
  UsageEvent: { eventId: KEY, ...usageNames, ...eventNames, ...planNames },
  UsageQuantities: {
    "!name the unit of the packs that pay: `count`, `tokens`, `seconds` or `cents`":
      "credits credit units unit points amount",
    "!write all tokens together as `tokens`":
      "inputTokens outputTokens promptTokens completionTokens totalTokens cachedTokens reasoningTokens",
    "!write `seconds`, which may have three decimals":
      "minutes minute hours milliseconds ms duration durationMs durationSeconds",
    "!write `cents`, which may have six decimals": "usd eur dollars euros price cost costUsd microdollars",
    "!write them as `count`": "requests calls uses images messages pages characters bytes items quantity value",
    tokens: "token",
    seconds: "second sec secs",
    cents: "cent",
    "/event": "event",
    "/model": "model",
    "/properties": "properties",
  },
  CreateReservation: {
    reservationId: `holdId ${KEY}`,
    ...usageNames,
    expiresInSeconds: SECONDS_NAMES,
    ...reservationNames,
  },
  ExtendReservation: { expiresInSeconds: SECONDS_NAMES },
  CommitReservation: {
    eventId: KEY,
    ...quantityNames,
    ...eventNames,
    "!it is the reservation's: leave it out": "userId event model reservationId",
  },
  CreateRecurringGrant: {
    recurringId: `id subscriptionId ${KEY} externalRef`,
    userId: USER_NAMES,
    packId: PACK,
    quantity: "amount value qty credits units",
    every: EVERY_NAMES,
    startsAt: "start startDate startAt from anchor",
    endsAt: "end endDate endAt to until expiresAt",
    rolloverPeriods: "rollover rollsOver carryOver",
  },
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
  SetEndUserAuth: { mode: "environment env", ...settingNames },
  CreateCreditPack: packNames,
  UpdateCreditPack: packNames,
  CreateCreditPackItem: itemNames,
  UpdateCreditPackItem: { packItemId: "id itemId", ...itemNames },
  CreateWebhook: { url: "endpoint uri", types: "type events eventTypes" },
  ChangeWebhook: { url: "endpoint uri", types: "type events eventTypes", isEnabled: "enabled active" },
  CreateAlert: { mode: "environment env", name: "title label", event: "match matches", below: BELOW },
  ChangeAlert: { name: "title label", event: "match matches", below: BELOW },
  AlertBelow: { amount: "value quantity credits tokens count seconds cents", percent: "percentage share fraction" },
  CreateUsageLimit: {
    mode: "environment env",
    name: "title label",
    matches: RULES,
    amount: "limit max quantity",
    every: EVERY_NAMES,
  },
  MatchRule: { event: "events name type eventName", model: "models" },
  CreateAdminKey: { modes: "mode", apps: "app appId appIds", scopes: "scope permissions" },
};

const adviceFor = (field: string): string => {
  const dot = field.indexOf(".");
  if (field.startsWith("!")) return field.slice(1);
  if (field.startsWith("/")) return `write it at the top level, as \`${field.slice(1)}\``;
  return dot === -1 ? `write \`${field}\`` : `write it into \`${field.slice(0, dot)}\`, as \`${field.slice(dot + 1)}\``;
};

/** Returns what to write instead of an unknown field. `known` has the fields of the schema. */
export function fieldAdvice(schemaId: string | undefined, known: readonly string[], name: string): string {
  const isSame = (other: string): boolean => plainName(other) === plainName(name);
  const table = Object.entries(WRONG_FIELDS[schemaId ?? ""] ?? {});
  const field = known.find(isSame) ?? table.find(([, names]) => names.split(" ").some(isSame))?.[0];
  if (field !== undefined) return adviceFor(field);
  return known.length === 0
    ? "no fields are allowed here"
    : `the fields are ${known.map((field) => `\`${field}\``).join(", ")}`;
}

/** Returns how many characters must be added, removed or replaced to turn one text into the other (Levenshtein distance). */
function distance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, at) => at);
  for (const [i, character] of [...a].entries()) {
    const next = [i + 1];
    for (let j = 0; j < b.length; j++) {
      const [above = 0, diagonal = 0, left = 0] = [row[j + 1], row[j], next[j]];
      next.push(Math.min(above + 1, left + 1, diagonal + (character === b[j] ? 0 : 1)));
    }
    row = next;
  }
  return row.at(-1) ?? 0;
}

/** Returns at most `count` of `names` that are similar to `name`, the most similar first. Ignores case. */
export function nearest(name: string, names: readonly string[], count: number): string[] {
  const lower = name.toLowerCase();
  return names
    .map((candidate) => ({ candidate, changes: distance(lower, candidate.toLowerCase()) }))
    .filter(({ candidate, changes }) => changes <= Math.max(2, candidate.length / 3))
    .sort((a, b) => a.changes - b.changes)
    .slice(0, count)
    .map(({ candidate }) => candidate);
}

/** Names of fields that integrators write by mistake, and what to write instead. Each schema has its own in its `.meta()`. */

/** Returns a name in lower case and without separators, so that `user_id`, `User-Id` and `userId` are equal. */
export const plainName = (name: string): string => name.toLowerCase().replace(/[^\p{L}\p{N}]/gu, "");

export const USER_NAMES =
  "user customer customerId client clientId account accountId uid subject sub owner distinctId userName email";
export const USER_ID = `userId ${USER_NAMES}`;
export const PERSON = "userId user customer customerId uid personId id";
export const PACK = "pack packName plan planId product productId price priceId creditPackId";
export const BALANCE = "id balance credit creditId creditBalanceId";
export const REFERENCE = "reference ref orderId paymentId chargeId invoiceId";
export const KEY = "id uuid key idempotencyKey idempotencyId requestId transactionId messageId";
export const TEXT = "note notes comment description memo text metadata meta data reason";
export const TIME = "timestamp time date at ts createdAt eventTime";
export const EXPIRY_NAMES =
  "expires expiry expiration expireAt expiresIn expiresInSeconds expiresInDays validUntil ttl";
export const EVERY_NAMES = "interval period frequency recurrence window cycle";
export const RULES = "match rule rules filter filters event events model models";
export const BELOW = "threshold amount percent limit value when";
export const SECONDS_NAMES = "expires expiry expiration expireAt expiresAt expiresIn seconds ttl timeout duration";

/** Names that several schemas share. */
export const quantityNames = {
  quantities: "amount value quantity qty credits units usage tokensUsed cost",
  "quantities.count": "count",
  "quantities.tokens": "tokens",
  "quantities.seconds": "seconds",
  "quantities.cents": "cents",
};
export const planNames = { "!ask `POST /api/v1/credits/plan`, which changes nothing": "dryRun preview simulate" };
export const usageNames = {
  userId: USER_NAMES,
  event: "type name eventName eventType action feature meter",
  ...quantityNames,
};
export const eventNames = {
  occurredAt: TIME,
  properties: "metadata meta props attributes data extra payload",
  onShortage: "partial allowPartial overdraft overage allowOverage allowNegative force onInsufficient",
};
export const reservationNames = {
  "!the commit names it": "eventId",
  onExpiry: "onTimeout onExpire",
  "!a hold is all or nothing": "onShortage partial",
};
export const settingNames = {
  setting: "settings config endUserAuth",
  "setting.type": "type",
  "setting.url": "url jwksUrl jwksUri uri",
  "setting.secret": "secret sharedSecret signingKey",
  "setting.issuer": "issuer iss",
  "setting.audience": "audience aud",
  "setting.claim": "claim",
  "setting.payerClaim": "payerClaim orgClaim teamClaim",
  "setting.payerPrefix": "payerPrefix orgPrefix teamPrefix",
  "setting.trustUnverified": "trustUnverified allowUnverified",
  "setting.trustUserWritten": "trustUserWritten allowUserWritten",
  "setting.origins": "origins",
};
export const itemNames = { amount: "quantity value credits", matches: RULES };
export const packNames = {
  packName: "name title",
  defaultExpiryDays: `expiresAt expiryDays validDays ${EXPIRY_NAMES}`,
  '!write what the pack grants into `items`, such as `[{ amount: 1000, unit: "tokens" }]`':
    "amount quantity credits tokens count seconds cents",
  "!a pack has no price: your payment provider has it": "price priceId amountPaid currency",
};

/**
 * The right field names of a schema, each with the names that callers write instead. `a.b` is `b` within `a`; `/b` is `b` at the top
 * level; an entry that begins with `!` is the complete advice. A schema has them in its `.meta()`.
 */
export type WrongNames = Readonly<Record<string, string>>;

const adviceFor = (field: string): string => {
  const dot = field.indexOf(".");
  if (field.startsWith("!")) return field.slice(1);
  if (field.startsWith("/")) return `write it at the top level, as \`${field.slice(1)}\``;
  return dot === -1 ? `write \`${field}\`` : `write it into \`${field.slice(0, dot)}\`, as \`${field.slice(dot + 1)}\``;
};

/** Returns what to write instead of an unknown field. `known` has the fields of the schema. */
export function fieldAdvice(wrongNames: WrongNames, known: readonly string[], name: string): string {
  const isSame = (other: string): boolean => plainName(other) === plainName(name);
  const table = Object.entries(wrongNames);
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

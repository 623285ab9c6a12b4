/**
 * SQL that writes the JSON of the document's long lists. Concatenated text takes a third of the processor time of serialised
 * objects. Everything here is constant text; entries.ts binds the values.
 */

export const LISTS = ["ledger", "exports", "analytics", "metering", "consent"] as const;
export type ListName = (typeof LISTS)[number];

export interface List {
  readonly table: string;
  /** Whether its rows belong to the distinct id, or to the account of that user id. */
  readonly keyedBy: "distinct_id" | "account";
  /** The column that orders an id's rows before `seq`. Null if there is none. */
  readonly orderedBy: "occurred_by_ms" | null;
  /** An entry's JSON up to its last value. */
  readonly head: string;
  /** The last value, which may be long. */
  readonly body: string;
  /** The length of the last value, which SQLite knows without reading it. */
  readonly bodyBytes: string;
}

/** SQL: the account of an id. Null if it has none. */
export const accountSql = (environmentId: string): string =>
  `(SELECT a.id FROM accounts AS a WHERE a.environment_id = ${environmentId} AND a.user_id = owner.distinct_id)`;

/** SQL: whether a row `t` belongs to the id `owner.distinct_id`. */
export function isOwnedSql({ keyedBy }: Pick<List, "keyedBy">, environmentId: string): string {
  if (keyedBy === "account") return `t.account_id = ${accountSql(environmentId)}`;
  return `t.environment_id = ${environmentId} AND t.distinct_id = owner.distinct_id`;
}

/** SQL: the ids of `:spans` as `owner`, each with its span as `value`. */
export const ownersOfSpans = "(SELECT value, value ->> 0 AS distinct_id FROM json_each(:spans)) AS owner";

const text = (column: string): string => `json_quote(t.${column})`;

/**
 * SQL: milliseconds as ISO 8601. It uses integers only, because SQLite's own milliseconds are floats. It rounds down, also
 * before 1970.
 */
export const isoSql = (column: string): string => {
  const milliseconds = `((${column} % 1000 + 1000) % 1000)`;
  const seconds = `((${column} - ${milliseconds}) / 1000)`;
  return `'"' || strftime('%Y-%m-%dT%H:%M:%S', ${seconds}, 'unixepoch') || printf('.%03dZ"', ${milliseconds})`;
};
const time = (column: string): string => isoSql(`t.${column}`);

/** SQL: steps as a decimal, like `fromSteps` of books/amounts/amount.ts. */
export const amountSql = (column: string, decimals: 3 | 6): string => {
  const scale = 10 ** decimals;
  const digits = `printf('%d.%0${decimals}d', abs(${column}) / ${scale}, abs(${column}) % ${scale})`;
  // printf reads NULL as 0.
  return `iif(${column} IS NULL, NULL, iif(${column} < 0, '-', '') || rtrim(rtrim(${digits}, '0'), '.'))`;
};

/** SQL: a unit of the event, left out if it is 0. */
const quantity = (unit: "tokens" | "seconds" | "cents"): string =>
  `iif(t.${unit}_steps > 0, ',"${unit}":' || ${amountSql(`t.${unit}_steps`, unit === "cents" ? 6 : 3)}, '')`;

const fields = (pairs: readonly (readonly [name: string, value: string])[]): string =>
  pairs.map(([name, value], index) => `'${index === 0 ? "{" : ","}"${name}":' || ${value}`).join(" || ");

const endingIn = (head: string, name: string): string => `${head} || ',"${name}":'`;

/** SQL: the properties of a usage event, wherever they are kept. */
const usageProperties = `iif(t.large_properties_bytes IS NULL, coalesce(t.properties, 'null'), (SELECT l.properties
  FROM large_properties AS l WHERE l.account_id = t.account_id AND l.occurred_by_ms = t.occurred_by_ms AND l.seq = t.seq))`;

export const lists: Readonly<Record<ListName, List>> = {
  analytics: {
    table: "analytics_events",
    keyedBy: "distinct_id",
    orderedBy: null,
    head: endingIn(
      fields([
        ["uuid", text("uuid")],
        ["event", text("event")],
        ["distinctId", text("distinct_id")],
        ["timestamp", time("timestamp_ms")],
        ["receivedAt", time("received_at_ms")],
        ["isVerified", "iif(t.is_verified = 1, 'true', 'false')"],
      ]),
      "properties",
    ),
    body: "t.properties",
    bodyBytes: "octet_length(t.properties)",
  },
  metering: {
    table: "usage_events",
    keyedBy: "account",
    orderedBy: "occurred_by_ms",
    head: endingIn(
      fields([
        ["eventId", text("event_id")],
        ["userId", "json_quote(owner.distinct_id)"],
        ["event", text("event")],
        ["model", text("model")],
        [
          "quantities",
          `'{"count":' || ${amountSql("t.count_steps", 3)} || ${quantity("tokens")} || ${quantity("seconds")} || ${quantity("cents")} || '}'`,
        ],
        ["occurredAt", time("occurred_at_ms")],
        ["receivedAt", time("received_at_ms")],
      ]),
      "debits",
    ),
    body: `t.debits || ',"uncovered":' || coalesce(t.uncovered, 'null') || ',"properties":' || ${usageProperties}`,
    bodyBytes: "(octet_length(t.debits) + coalesce(octet_length(t.properties), t.large_properties_bytes, 0))",
  },
  ledger: {
    table: "credit_ledger",
    keyedBy: "account",
    orderedBy: null,
    head: endingIn(
      fields([
        [
          "id",
          `json_quote('led_' || iif(t.balance_id GLOB 'crb_*', substr(t.balance_id, 5), t.balance_id) || '_' || t.seq)`,
        ],
        ["balanceId", text("balance_id")],
        ["packId", text("pack_id")],
        ["delta", `iif(t.unit = 'cents', ${amountSql("t.delta_steps", 6)}, ${amountSql("t.delta_steps", 3)})`],
        ["unit", text("unit")],
        ["reason", text("reason")],
        ["eventId", text("event_id")],
        ["reservationId", text("reservation_id")],
        ["occurredAt", time("occurred_at_ms")],
      ]),
      "note",
    ),
    body: text("note"),
    bodyBytes: "coalesce(octet_length(t.note), 0)",
  },
  consent: {
    table: "consent_log",
    keyedBy: "distinct_id",
    orderedBy: null,
    head: endingIn(
      fields([
        ["consentId", text("id")],
        ["distinctId", text("distinct_id")],
        ["purpose", text("purpose")],
        ["decision", text("decision")],
        ["method", text("method")],
        ["noticeVersion", text("notice_version")],
        ["source", text("source")],
        ["gpc", "CASE t.gpc WHEN 1 THEN 'true' WHEN 0 THEN 'false' ELSE 'null' END"],
        ["isDevice", "iif(t.is_device = 1, 'true', 'false')"],
        ["occurredAt", time("occurred_at_ms")],
      ]),
      "receivedAt",
    ),
    body: time("received_at_ms"),
    bodyBytes: "0",
  },
  exports: {
    table: "export_audit",
    keyedBy: "distinct_id",
    orderedBy: null,
    head: endingIn(
      fields([
        ["action", text("action")],
        ["distinctId", text("distinct_id")],
        ["tokenHash", text("token_hash")],
        ["keyId", text("key_id")],
      ]),
      "occurredAt",
    ),
    body: time("occurred_at_ms"),
    bodyBytes: "0",
  },
};

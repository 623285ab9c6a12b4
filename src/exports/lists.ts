/**
 * The document's long lists as SQL that writes their JSON: text that is concatenated takes a third of the processor time
 * of objects that are built and then serialised. Everything here is constant text; values are bound by entries.ts.
 */

export const LISTS = ["ledger", "exports", "analytics", "metering", "consent"] as const;
export type ListName = (typeof LISTS)[number];

export interface List {
  readonly table: string;
  /** The column that holds the distinct id. */
  readonly idColumn: "distinct_id" | "user_id";
  /** The column that orders an id's rows before `seq` does, where there is one. */
  readonly orderedBy: "occurred_by_ms" | null;
  /** An entry's JSON up to its last value. */
  readonly head: string;
  /** The last value: the one that may be long. */
  readonly body: string;
  /** How long it is, told without reading it. */
  readonly bodyBytes: string;
}

const text = (column: string): string => `json_quote(t.${column})`;

/**
 * ISO 8601 of milliseconds, from integers alone: SQLite's own milliseconds come from a float. Rounds down before 1970 too.
 */
export const isoSql = (column: string): string => {
  const milliseconds = `((${column} % 1000 + 1000) % 1000)`;
  const seconds = `((${column} - ${milliseconds}) / 1000)`;
  return `'"' || strftime('%Y-%m-%dT%H:%M:%S', ${seconds}, 'unixepoch') || printf('.%03dZ"', ${milliseconds})`;
};
const time = (column: string): string => isoSql(`t.${column}`);

/** Steps as the decimal that amounts/amount.ts means by them. */
export const amountSql = (column: string, decimals: 3 | 6): string => {
  const scale = 10 ** decimals;
  const digits = `printf('%d.%0${decimals}d', abs(${column}) / ${scale}, abs(${column}) % ${scale})`;
  // printf reads NULL as 0.
  return `iif(${column} IS NULL, NULL, iif(${column} < 0, '-', '') || rtrim(rtrim(${digits}, '0'), '.'))`;
};

/** A unit that the event carries: 0 of it is none. */
const quantity = (unit: "tokens" | "seconds" | "cents"): string =>
  `iif(t.${unit}_steps > 0, ',"${unit}":' || ${amountSql(`t.${unit}_steps`, unit === "cents" ? 6 : 3)}, '')`;

const fields = (pairs: readonly (readonly [name: string, value: string])[]): string =>
  pairs.map(([name, value], index) => `'${index === 0 ? "{" : ","}"${name}":' || ${value}`).join(" || ");

const endingIn = (head: string, name: string): string => `${head} || ',"${name}":'`;

export const lists: Readonly<Record<ListName, List>> = {
  analytics: {
    table: "analytics_events",
    idColumn: "distinct_id",
    orderedBy: null,
    head: endingIn(
      fields([
        ["uuid", text("uuid")],
        ["event", text("event")],
        ["distinctId", text("distinct_id")],
        ["timestamp", time("timestamp_ms")],
        ["receivedAt", time("received_at_ms")],
      ]),
      "properties",
    ),
    body: "t.properties",
    bodyBytes: "octet_length(t.properties)",
  },
  metering: {
    table: "usage_events",
    idColumn: "user_id",
    orderedBy: "occurred_by_ms",
    head: endingIn(
      fields([
        ["eventId", text("event_id")],
        ["userId", text("user_id")],
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
    body: `t.debits || ',"uncovered":' || coalesce(t.uncovered, 'null') || ',"properties":' || coalesce(t.properties, 'null')`,
    bodyBytes: "(octet_length(t.debits) + coalesce(octet_length(t.properties), 0))",
  },
  ledger: {
    table: "credit_ledger",
    idColumn: "user_id",
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
    idColumn: "distinct_id",
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
        ["occurredAt", time("occurred_at_ms")],
      ]),
      "receivedAt",
    ),
    body: time("received_at_ms"),
    bodyBytes: "0",
  },
  exports: {
    table: "export_audit",
    idColumn: "distinct_id",
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

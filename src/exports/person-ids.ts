import { fragment, statement } from "../db/sql.ts";
import { assert } from "../lib/assert.ts";
import { type Utf8, utf8 } from "../lib/utf8.ts";
import { type PersonKey, personWalk } from "../people/person-walk.ts";
import type { ListSize } from "./budget.ts";
import { LISTS, type ListName } from "./lists.ts";
import type { Bound } from "./reading.ts";

/** An id of the person as it was at the snapshot. */
export interface PersonId {
  readonly distinctId: string;
  /** Meaningless for the requested id, as the rest of the claim. */
  readonly claimedBy: string;
  readonly via: "identify" | "alias";
  readonly claimedAtMs: number;
  readonly isVerified: boolean;
  /** The last seq of each of its lists. 0 where it has no row. */
  readonly last: Readonly<Record<ListName, number>>;
  /** How many of its first analytics events are deleted (E8). */
  readonly deletedAnalytics: number;
  /** The version of its properties. 0 if it has none. */
  readonly propertiesVersion: number;
  readonly propertiesBytes: number;
}

/** The requested id, then the ids that it claims, nearest first. As bytes: so many objects would not fit into memory. */
export interface PersonIds {
  readonly count: number;
  readonly sizes: Readonly<Record<ListName, ListSize>>;
  readonly firstSeenAtMs: number;
  readonly lastSeenAtMs: number;
  readonly analyticsBytes: number;
  /** Of all properties, and the number of ids that have some. */
  readonly propertiesBytes: number;
  readonly propertiesCount: number;
  /** The properties of the first ids. Null for one that has none, or very large ones. */
  readonly firstProperties: readonly (string | null)[];
  readonly each: () => Generator<PersonId>;
}

/** A person of at most so many ids is read id by id, which reads the fewest rows. */
const FEW_IDS = 150;
/** The ids of a larger person whose properties are read with the snapshot. Each id's are 64 KiB at most (L1). */
const FIRST_PROPERTIES = 32;
const FIRST_PROPERTIES_BYTES_MAX = 100_000;
const IDS_MAX = 1_000_000;
/** The most characters of all ids together, which memory must hold twice for a moment. */
const ID_CHARACTERS_MAX = 20_000_000;
const IDS_OF_CHUNK = 4_000;

const columns = [
  ...["first_seen_at_ms", "last_seen_at_ms", "is_device_form", "is_identified", "claimed_by"],
  ...["claimed_via", "claimed_at_ms", "claim_is_verified", "event_bytes", "event_count", "deleted_count"],
];
const last = (table: string): string => fragment`(
    SELECT seq FROM ${table} WHERE environment_id = i.environment_id AND distinct_id = i.distinct_id
    ORDER BY seq DESC LIMIT 1)`;
const lastOfAccount = (table: string, order = "seq DESC"): string => fragment`(
    SELECT seq FROM ${table} WHERE account_id = a.id ORDER BY ${order} LIMIT 1)`;

/** SQL: the fields of an id, in the order in which `presentLine` reads them. */
const fieldsSql = fragment`rtrim(concat(
    i.claimed_at_ms, ',', iif(i.claimed_via = 'alias', 1, 0) + 2 * coalesce(i.claim_is_verified, 0), ',',
    nullif(i.event_count, 0), ',',
    ${lastOfAccount("usage_events", "occurred_by_ms DESC, seq DESC")}, ',', ${lastOfAccount("credit_ledger")}, ',',
    ${last("consent_log")}, ',', ${last("export_audit")}, ',', p.version, ',', octet_length(p.properties), ',', nullif(i.deleted_count, 0)), ',')`;
/** Control characters separate ids and fields, because no id has one (W9). */
const TAB = "char(9)";
/** SQL: who claims an id. Empty for the requested id, because it claims the most. */
const claimerSql = "iif(i.claimed_by = :distinctId, '', coalesce(i.claimed_by, ''))";
const lineSql = `i.distinct_id || ${TAB} || ${claimerSql} || ${TAB} || ${fieldsSql}`;
const person = fragment`FROM person AS i
    LEFT JOIN accounts AS a ON a.environment_id = i.environment_id AND a.user_id = i.distinct_id
    LEFT JOIN id_properties AS p ON p.environment_id = i.environment_id AND p.distinct_id = i.distinct_id`;
const isSmallOrOwn = fragment`(
      i.distinct_id = :distinctId OR octet_length(p.properties) <= ${`${FIRST_PROPERTIES_BYTES_MAX}`})`;

export interface ChunkRow {
  /** The lines of its ids. Null when there are more characters than `ID_CHARACTERS_MAX`. */
  readonly lines: string | null;
  readonly ids: number;
  readonly firstSeenAtMs: number | null;
  readonly lastSeenAtMs: number | null;
  readonly analyticsBytes: number | null;
  readonly propertiesBytes: number | null;
  readonly propertiesCount: number;
  /** Those of one of the first ids. */
  readonly properties: string | null;
}

/** The first ids, one by one: all of them, unless `isMore` says otherwise. */
export const findFewIds = statement<PersonKey, ChunkRow>`${personWalk({ idsMax: FEW_IDS + 1, columns })}
  SELECT ${lineSql} AS lines, 1 AS ids,
    i.first_seen_at_ms AS firstSeenAtMs, i.last_seen_at_ms AS lastSeenAtMs, i.event_bytes AS analyticsBytes,
    octet_length(p.properties) AS propertiesBytes, p.version IS NOT NULL AS propertiesCount,
    iif(${isSmallOrOwn}, p.properties, NULL) AS properties
  ${person}`;

export const isMore = (few: readonly ChunkRow[]): boolean => few.length > FEW_IDS;

/** All ids in chunks, in their order; the first ids each in a chunk of its own, with their properties. */
export const findManyIds = statement<PersonKey, ChunkRow>`${personWalk({ idsMax: IDS_MAX + 1, columns })}
  SELECT iif(max(characters) > ${`${ID_CHARACTERS_MAX}`}, NULL, group_concat(line, char(10))) AS lines,
    count(*) AS ids, min(first_seen_at_ms) AS firstSeenAtMs, max(last_seen_at_ms) AS lastSeenAtMs,
    sum(event_bytes) AS analyticsBytes, sum(properties_bytes) AS propertiesBytes,
    count(properties_bytes) AS propertiesCount, max(properties) AS properties
  FROM (
    SELECT row_number() OVER w AS n, sum(length(i.distinct_id) + length(${claimerSql})) OVER w AS characters,
      ${lineSql} || ${TAB} || row_number() OVER w AS line,
      i.first_seen_at_ms, i.last_seen_at_ms, i.event_bytes, octet_length(p.properties) AS properties_bytes,
      iif(row_number() OVER w <= ${`${FIRST_PROPERTIES}`} AND ${isSmallOrOwn}, p.properties, NULL) AS properties
    ${person}
    WINDOW w AS (ROWS UNBOUNDED PRECEDING)
  )
  GROUP BY iif(n <= ${`${FIRST_PROPERTIES}`}, n - ${`${FIRST_PROPERTIES}`} - 1, n / ${`${IDS_OF_CHUNK}`})`;

/** Null when the ids are more than memory holds. */
export function readIds(rows: readonly ChunkRow[]): PersonIds | null {
  const count = rows.reduce((sum, row) => sum + row.ids, 0);
  if (count > IDS_MAX || rows.some((row) => row.lines === null)) return null;
  const chunks = rows.map((row) => utf8(row.lines ?? ""));
  const sum = (of: (row: ChunkRow) => number | null) => rows.reduce((total, row) => total + (of(row) ?? 0), 0);
  const each = () => eachId(chunks);
  return {
    count,
    sizes: sizesOf(each),
    firstSeenAtMs: rows.reduce((least, row) => Math.min(least, row.firstSeenAtMs ?? least), Number.MAX_SAFE_INTEGER),
    lastSeenAtMs: rows.reduce((most, row) => Math.max(most, row.lastSeenAtMs ?? 0), 0),
    analyticsBytes: sum((row) => row.analyticsBytes),
    propertiesBytes: sum((row) => row.propertiesBytes),
    propertiesCount: sum((row) => row.propertiesCount),
    firstProperties: (isMore(rows) || rows.length < count ? rows.slice(0, FIRST_PROPERTIES) : rows).map(
      (row) => row.properties,
    ),
    each,
  };
}

function* eachId(chunks: readonly Utf8[]): Generator<PersonId> {
  const decoder = new TextDecoder();
  let requestedId: string | null = null;
  let index = 0;
  for (const chunk of chunks) {
    for (const text of decoder.decode(chunk).split("\n")) {
      const [distinctId = "", claimer = "", fields = "", position] = text.split("\t");
      index++;
      assert(position === undefined || Number(position) === index, "ids come in their order");
      yield presentLine(distinctId, requestedId === null || claimer !== "" ? claimer : requestedId, fields);
      requestedId ??= distinctId;
    }
  }
}

function presentLine(distinctId: string, claimedBy: string, text: string): PersonId {
  const fields = text.split(",");
  const of = (index: number): number => Number(fields[index] ?? 0);
  const flags = of(1);
  return {
    distinctId,
    claimedBy,
    claimedAtMs: of(0),
    via: (flags & 1) === 1 ? "alias" : "identify",
    isVerified: (flags & 2) === 2,
    last: { analytics: of(2), metering: of(3), ledger: of(4), consent: of(5), exports: of(6) },
    propertiesVersion: of(7),
    propertiesBytes: of(8),
    deletedAnalytics: of(9),
  };
}

function sizesOf(each: () => Generator<PersonId>): PersonIds["sizes"] {
  const none = () => ({ rows: 0, ids: 0, idBytes: 0 });
  const sizes = { ledger: none(), exports: none(), analytics: none(), metering: none(), consent: none() };
  for (const personId of each()) {
    const { distinctId, last } = personId;
    for (const name of LISTS) {
      const after = deletedOf(personId, name);
      if (last[name] === after) continue;
      sizes[name].rows += last[name] - after;
      sizes[name].ids++;
      sizes[name].idBytes += 3 * distinctId.length;
    }
  }
  return sizes;
}

const deletedOf = ({ deletedAnalytics }: PersonId, name: ListName): number =>
  name === "analytics" ? deletedAnalytics : 0;

/** The ids with rows in a list, and the seqs of these. */
export function* boundsOf({ each, sizes }: Pick<PersonIds, "each" | "sizes">, name: ListName): Generator<Bound> {
  let left = sizes[name].ids;
  if (left === 0) return;
  for (const personId of each()) {
    const after = deletedOf(personId, name);
    if (personId.last[name] === after) continue;
    yield { id: personId.distinctId, after, last: personId.last[name] };
    if (--left === 0) return;
  }
}

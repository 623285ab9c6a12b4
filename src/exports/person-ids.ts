import { assert } from "../errors.ts";
import { type Utf8, utf8 } from "../lib/encoding.ts";
import { LISTS, type ListName } from "./lists.ts";
import { type ChunkRow, EXPORTED_IDS_MAX, FIRST_PROPERTIES, hasMoreIds } from "./select-person-ids.ts";
import type { Bound, ListSize } from "./span-cursor.ts";

/** An id of the person as it was at the snapshot. */
export interface PersonId {
  readonly distinctId: string;
  /** Not used for the requested id, like the other fields of its claim. */
  readonly claimedBy: string;
  readonly via: "identify" | "alias";
  readonly claimedAtMs: number;
  readonly isVerified: boolean;
  /** The last seq of each of its lists. 0 for an empty list. */
  readonly last: Readonly<Record<ListName, number>>;
  /** How many of its first analytics events are deleted (E8). */
  readonly deletedAnalytics: number;
  /** How many of the others a verified event replaced (P4). */
  readonly replacedAnalytics: number;
  /** The bytes of its properties that secret keys set, and of those that other keys set. */
  readonly verifiedBytes: number;
  readonly otherBytes: number;
}

/** The properties of an id that were read with the snapshot: what secret keys set, and what other keys set. */
export interface FirstProperties {
  readonly verified: string | null;
  readonly other: string | null;
}

/**
 * The requested id, then the ids that it claims, nearest first. They are stored as bytes, because objects would not fit into memory.
 */
export interface PersonIds {
  readonly count: number;
  readonly sizes: Readonly<Record<ListName, ListSize>>;
  readonly firstSeenAtMs: number;
  readonly lastSeenAtMs: number;
  readonly analyticsBytes: number;
  /** The bytes of all properties, and the number of ids with properties. */
  readonly propertiesBytes: number;
  readonly propertiesCount: number;
  /** The properties of the first ids. Null where there are none, or large ones. */
  readonly firstProperties: readonly FirstProperties[];
  /** The recurring grants of the ids. Each text has lists for `presentRecurringJson`, separated by commas. */
  readonly recurring: readonly string[];
  /** The notes on the ids. Each text has JSON objects, separated by commas. */
  readonly notes: readonly string[];
  readonly each: () => Generator<PersonId>;
}

/** Returns the ids from the rows of `findFewIds` or `findManyIds`. Null when they do not fit into memory. */
export function readIds(rows: readonly ChunkRow[]): PersonIds | null {
  const count = rows.reduce((sum, row) => sum + row.ids, 0);
  if (count > EXPORTED_IDS_MAX || rows.some((row) => row.lines === null)) return null;
  const chunks = rows.map((row) => utf8(row.lines ?? ""));
  const sum = (column: (row: ChunkRow) => number | null) => rows.reduce((total, row) => total + (column(row) ?? 0), 0);
  const each = () => eachId(chunks);
  return {
    count,
    sizes: sumSizes(each),
    firstSeenAtMs: rows.reduce((least, row) => Math.min(least, row.firstSeenAtMs ?? least), Number.MAX_SAFE_INTEGER),
    lastSeenAtMs: rows.reduce((most, row) => Math.max(most, row.lastSeenAtMs ?? 0), 0),
    analyticsBytes: sum((row) => row.analyticsBytes),
    propertiesBytes: sum((row) => row.propertiesBytes),
    propertiesCount: sum((row) => row.propertiesCount),
    firstProperties: (hasMoreIds(rows) || rows.length < count ? rows.slice(0, FIRST_PROPERTIES) : rows).map(
      ({ verified, other }) => ({ verified, other }),
    ),
    recurring: rows.flatMap(({ recurring }) => recurring ?? []),
    notes: rows.flatMap(({ notes }) => notes ?? []),
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
      assert(position === undefined || Number(position) === index, "ids are in order");
      yield readIdLine(distinctId, requestedId === null || claimer !== "" ? claimer : requestedId, fields);
      requestedId ??= distinctId;
    }
  }
}

function readIdLine(distinctId: string, claimedBy: string, text: string): PersonId {
  const fields = text.split(",");
  const numberAt = (index: number): number => Number(fields[index] ?? 0);
  const flags = numberAt(1);
  return {
    distinctId,
    claimedBy,
    claimedAtMs: numberAt(0),
    via: (flags & 1) === 1 ? "alias" : "identify",
    isVerified: (flags & 2) === 2,
    last: {
      analytics: numberAt(2),
      metering: numberAt(3),
      ledger: numberAt(4),
      consent: numberAt(5),
      exports: numberAt(6),
    },
    verifiedBytes: numberAt(7),
    otherBytes: numberAt(8),
    deletedAnalytics: numberAt(9),
    replacedAnalytics: numberAt(10),
  };
}

function sumSizes(each: () => Generator<PersonId>): PersonIds["sizes"] {
  const none = () => ({ rows: 0, seqs: 0, ids: 0, idBytes: 0 });
  const sizes = { ledger: none(), exports: none(), analytics: none(), metering: none(), consent: none() };
  for (const personId of each()) {
    for (const name of LISTS) {
      const { id, after, last, rows } = boundOf(personId, name);
      if (rows === 0) continue;
      sizes[name].rows += rows;
      sizes[name].seqs += last - after;
      sizes[name].ids++;
      sizes[name].idBytes += 3 * id.length;
    }
  }
  return sizes;
}

function boundOf({ distinctId: id, last, deletedAnalytics, replacedAnalytics }: PersonId, name: ListName): Bound {
  if (name !== "analytics") return { id, after: 0, last: last[name], rows: last[name] };
  const rows = last.analytics - deletedAnalytics - replacedAnalytics;
  return { id, after: deletedAnalytics, last: last.analytics, rows };
}

/** Returns the ids with rows in a list, and the bounds of their seqs. */
export function* boundsOf({ each, sizes }: Pick<PersonIds, "each" | "sizes">, name: ListName): Generator<Bound> {
  let idsLeft = sizes[name].ids;
  if (idsLeft === 0) return;
  for (const personId of each()) {
    const bound = boundOf(personId, name);
    if (bound.rows === 0) continue;
    yield bound;
    if (--idsLeft === 0) return;
  }
}

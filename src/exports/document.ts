import { and, eq, sql } from "drizzle-orm";
import { counterOf, presentUserLimits } from "../books/limits/user-limits.ts";
import { presentRecurringJson } from "../books/recurring/recurring.ts";
import { drizzle, fields, query, type ValueOf } from "../db/query.ts";
import { idProperties } from "../db/schema.ts";
import { all } from "../db/sql.ts";
import { assert } from "../errors.ts";
import { type Utf8, utf8 } from "../lib/encoding.ts";
import { isJsonObject, parseJson } from "../lib/json.ts";
import { iso } from "../lib/time.ts";
import { personIdOf } from "../people/person-walk.ts";
import type { Subject } from "./audit.ts";
import { balancePieces, hasAllBalances } from "./balances.ts";
import { entryPieces, hasAllEntries } from "./entries.ts";
import { LISTS, type ListName } from "./lists.ts";
import { boundsOf, type PersonId, type PersonIds } from "./person-ids.ts";
import type { Snapshot } from "./snapshot.ts";
import type { Reading } from "./span-cursor.ts";

/** The limits of a page of properties. Ids have at most 800 bytes, and D1 accepts 2 MB for one value. */
const PROPERTY_IDS_A_PAGE = 1_000;
const PROPERTIES_PAGE_BYTES = 2_000_000;
/** The most property names that are remembered. Beyond them, a name that several ids have may occur twice in the document. */
const NAMES_MAX = 100_000;

/** Properties as they were at the snapshot. Properties that have changed since are not found. */
const propertiesAtSnapshot = query((value: ValueOf<{ environmentId: number; ids: string }>) =>
  drizzle
    .select(fields(idProperties, "properties"))
    .from(sql`json_each(${value("ids")}) AS item`)
    .crossJoin(idProperties)
    .where(
      and(
        eq(idProperties.environmentId, value("environmentId")),
        sql`${idProperties.distinctId} = item.value ->> 0 AND ${idProperties.version} = item.value ->> 1`,
      ),
    ),
);

/** Returns the ids whose properties were not read with the snapshot, nearest first. */
function* idsToRead({ each, firstProperties }: PersonIds): Generator<PersonId> {
  let index = 0;
  for (const id of each()) {
    if (id.propertiesVersion > 0 && (firstProperties[index] ?? null) === null) yield id;
    index++;
  }
}

/** Returns whether the snapshot has all properties. */
const hasAllProperties = (ids: PersonIds): boolean => idsToRead(ids).next().done === true;

/**
 * Returns the JSON texts of all properties, nearest first. Throws when properties have changed since the snapshot, because the
 * document shows one moment (P10).
 */
async function* propertiesTexts({ db, environmentId }: Reading, ids: PersonIds): AsyncGenerator<string> {
  for (const text of ids.firstProperties) if (text !== null) yield text;
  const remainingIds = idsToRead(ids);
  for (;;) {
    const pageIds: [string, number][] = [];
    for (let bytes = 0; pageIds.length < PROPERTY_IDS_A_PAGE && bytes < PROPERTIES_PAGE_BYTES; ) {
      const { value, done } = remainingIds.next();
      if (done === true) break;
      pageIds.push([value.distinctId, value.propertiesVersion]);
      bytes += value.propertiesBytes;
    }
    if (pageIds.length === 0) return;
    const rows = await all(db, propertiesAtSnapshot({ environmentId, ids: JSON.stringify(pageIds) }));
    assert(rows.length === pageIds.length, "properties are as they were at the snapshot");
    for (const { properties } of rows) yield properties;
  }
}

/**
 * Returns the merged properties as one JSON object, in pieces. For each name the nearest id's value counts. Numbers keep
 * their digits.
 */
async function* propertiesPieces(reading: Reading, ids: PersonIds): AsyncGenerator<Utf8> {
  const names = new Set<string>();
  yield utf8("{");
  let isFirst = true;
  for await (const text of propertiesTexts(reading, ids)) {
    const properties = parseJson(text);
    assert(isJsonObject(properties), "an id's properties are a JSON object");
    const members: string[] = [];
    for (const [name, value] of Object.entries(properties)) {
      if (names.has(name)) continue;
      if (names.size < NAMES_MAX) names.add(name);
      members.push(`${JSON.stringify(name)}:${JSON.stringify(value)}`);
    }
    if (members.length === 0) continue;
    yield utf8(`${isFirst ? "" : ","}${members.join(",")}`);
    isFirst = false;
  }
  yield utf8("}");
}

/** The most ids in one piece of the document. */
const IDS_OF_PIECE = 2_000;
const NO_PERSON =
  '{"personId":null,"distinctIds":[],"properties":{},"createdAt":null,"lastSeenAt":null,"isIdentified":false';

/** The beginning of the document, up to the credits, in pieces (P9). Without analytics it has no person id and no ids. */
async function* personHead({ reading, isPerson, isIdentified, ids }: Snapshot): AsyncGenerator<Utf8> {
  if (!isPerson) return yield utf8(NO_PERSON);
  const { environmentId, distinctId, firstSeenAtMs } = reading;
  yield utf8(`{"personId":"${await personIdOf(environmentId, distinctId)}","distinctIds":[`);
  let piece: string[] = [];
  let isRequested = true;
  for (const id of ids.each()) {
    const entry = JSON.stringify(isRequested ? presentRequestedId(distinctId, firstSeenAtMs) : presentExportedId(id));
    piece.push(isRequested ? entry : `,${entry}`);
    isRequested = false;
    if (piece.length < IDS_OF_PIECE) continue;
    yield utf8(piece.join(""));
    piece = [];
  }
  yield utf8(`${piece.join("")}],"properties":`);
  yield* propertiesPieces(reading, ids);
  const lastFields = { createdAt: iso(ids.firstSeenAtMs), lastSeenAt: iso(ids.lastSeenAtMs), isIdentified };
  yield utf8(`,${JSON.stringify(lastFields).slice(1, -1)}`);
}

/** The requested id is shown without its claimer, which may be another person. */
const presentRequestedId = (distinctId: string, firstSeenAtMs: number | null) => ({
  distinctId,
  linkedAt: firstSeenAtMs === null ? null : iso(firstSeenAtMs),
  via: null,
  claimedBy: null,
  isVerified: false,
});

const presentExportedId = ({ distinctId, claimedAtMs, via, claimedBy, isVerified }: PersonId) => ({
  distinctId,
  linkedAt: iso(claimedAtMs),
  via,
  claimedBy,
  isVerified,
});

/** Returns whether anything is stored about the person. Earlier exports do not count (P8). */
function hasData({ isPerson, ids: { sizes, recurring }, limits }: Snapshot): boolean {
  // A user with an own amount, or with counted usage, has a counter.
  if (recurring.length > 0 || limits.some((row) => counterOf(row) !== undefined)) return true;
  return isPerson || [sizes.ledger, sizes.metering, sizes.consent].some(({ rows }) => rows > 0);
}

/** With more ids, the whole document would be too large for memory. */
const SNAPSHOT_IDS_MAX = 1_000;

/** Returns whether the snapshot has all rows. Then `documentPieces` reads nothing more from the database. */
export function fitsInSnapshot({ ids, first, firstBalances, isPerson }: Snapshot): boolean {
  return (
    ids.count <= SNAPSHOT_IDS_MAX &&
    (!isPerson || hasAllProperties(ids)) &&
    ids.sizes.ledger.ids <= 1 &&
    hasAllBalances(firstBalances) &&
    LISTS.every((name) => hasAllEntries(ids.sizes[name].rows, first[name]))
  );
}

/** Puts commas between the pieces of a list. */
async function* withCommas(pieces: AsyncIterable<Utf8>): AsyncGenerator<Utf8> {
  let isFirst = true;
  for await (const piece of pieces) {
    if (!isFirst) yield utf8(",");
    isFirst = false;
    yield piece;
  }
}

/** Returns the recurring grants of all ids as JSON without brackets. */
async function* recurringPieces({ recurring }: Snapshot["ids"], exportedAtMs: number): AsyncGenerator<Utf8> {
  for (const stored of recurring) yield utf8(JSON.stringify(presentRecurringJson(stored, exportedAtMs)).slice(1, -1));
}

/** Returns the end of the document. It is a new array each time, because the reader of a stream may detach it. */
export const documentEnd = (): Utf8 => utf8("]}");

/**
 * Returns the export document as JSON without `documentEnd`, in pieces of a page or less. It removes the first rows from the
 * snapshot. Throws when a row of the snapshot was deleted. The JSON that was sent until then is not valid.
 */
export async function* documentPieces(
  subject: Subject,
  snapshot: Snapshot,
  exportedAtMs: number,
): AsyncGenerator<Utf8> {
  const { reading, ids, first } = snapshot;
  const list = (name: ListName) => withCommas(entryPieces(reading, name, boundsOf(ids, name), first[name]));
  const { appId, mode, distinctId } = subject;
  const head = JSON.stringify({ format: "json", exportedAt: iso(exportedAtMs), appId, mode, distinctId });
  yield utf8(`${head.slice(0, -1)},"person":`);
  if (hasData(snapshot)) {
    yield* personHead(snapshot);
    yield utf8(',"credits":{"balances":[');
    yield* withCommas(balancePieces(reading, boundsOf(ids, "ledger"), snapshot.firstBalances, exportedAtMs));
    yield utf8('],"ledger":[');
    yield* list("ledger");
    yield utf8('],"recurring":[');
    yield* withCommas(recurringPieces(ids, exportedAtMs));
    const limits = JSON.stringify(presentUserLimits(snapshot.limits, exportedAtMs));
    yield utf8(`]},"usageLimits":${limits},"exports":[`);
    yield* list("exports");
    yield utf8("]}");
  } else {
    yield utf8("null");
  }
  yield utf8(',"events":{"analytics":[');
  yield* list("analytics");
  yield utf8('],"metering":[');
  yield* list("metering");
  yield utf8(']},"consentLog":[');
  yield* list("consent");
}

import { sql } from "drizzle-orm";
import { counterOf, presentUserLimits } from "../books/limits/read-user-limits.ts";
import { presentRecurringJson } from "../books/recurring/recurring.ts";
import { computed, query, read, type ValueOf } from "../db/query.ts";
import { idProperties } from "../db/schema.ts";
import { all } from "../db/sql.ts";
import { assert } from "../errors.ts";
import { type Utf8, utf8 } from "../lib/encoding.ts";
import { isJsonObject, parseJson } from "../lib/json.ts";
import { iso } from "../lib/time.ts";
import { makePersonId } from "../people/person-walk.ts";
import { balancePieces, hasAllBalances } from "./balances.ts";
import { entryPieces, hasAllEntries } from "./entries.ts";
import type { Subject } from "./export-audit.ts";
import { LISTS, type ListName } from "./lists.ts";
import { memberEventPieces } from "./member-events.ts";
import { boundsOf, type PersonId, type PersonIds } from "./person-ids.ts";
import type { Snapshot } from "./snapshot.ts";
import { isUnchangedPerson, type Reading, type RequestedId, requestedIdOf } from "./span-cursor.ts";

/** The limits of a page of properties. Ids have at most 800 bytes, and D1 accepts 2 MB for one value. */
const PROPERTY_IDS_A_PAGE = 1_000;
const PROPERTIES_PAGE_BYTES = 2_000_000;
/** The most property names that are remembered. Beyond them, a name that several ids have may occur twice in the document. */
const NAMES_MAX = 100_000;

type PageOfProperties = { environmentId: number; ids: string; isVerified: number };

/**
 * The properties of ids as they are now, because they have no time (P10). They may have grown since the snapshot: those beyond
 * `PROPERTIES_PAGE_BYTES` are null.
 */
const propertiesOfPage = query((value: ValueOf<PageOfProperties & RequestedId>) => {
  const { environmentId, distinctId, isVerified, properties } = idProperties;
  const size = sql`sum(octet_length(${properties})) OVER (ORDER BY item.key)`;
  return read(
    computed({
      place: sql<number>`item.key`,
      properties: sql<string | null>`iif(${size} <= ${PROPERTIES_PAGE_BYTES}, ${properties}, NULL)`,
    }),
    (list) => sql`
      SELECT ${list} FROM json_each(${value("ids")}) AS item CROSS JOIN ${idProperties}
      WHERE ${environmentId} = ${value("environmentId")} AND ${distinctId} = item.value
        AND ${isVerified} = ${value("isVerified")} AND ${isUnchangedPerson(value)} ORDER BY item.key`,
  );
});

/** Returns the ids, nearest first, with the properties of one kind that the snapshot has, if it has them. */
function* propertiesOfKind(
  { each, firstProperties }: PersonIds,
  isVerified: boolean,
): Generator<readonly [id: string, text: string | null, bytes: number]> {
  let index = 0;
  for (const id of each()) {
    const first = firstProperties[index++];
    const bytes = isVerified ? id.verifiedBytes : id.otherBytes;
    if (bytes > 0) yield [id.distinctId, (isVerified ? first?.verified : first?.other) ?? null, bytes];
  }
}

/** Returns whether the snapshot has all properties. */
function hasAllProperties(ids: PersonIds): boolean {
  for (const isVerified of [true, false]) {
    for (const [, text] of propertiesOfKind(ids, isVerified)) if (text === null) return false;
  }
  return true;
}

/** Returns the JSON texts of all properties of one kind, nearest first. */
async function* propertiesTexts(reading: Reading, ids: PersonIds, isVerified: boolean): AsyncGenerator<string> {
  const remaining = propertiesOfKind(ids, isVerified);
  let page: string[] = [];
  let bytes = 0;
  for (;;) {
    const { value, done } = remaining.next();
    const [id, text, size] = value ?? [];
    if (
      page.length > 0 &&
      (done === true || text !== null || page.length === PROPERTY_IDS_A_PAGE || bytes >= PROPERTIES_PAGE_BYTES)
    ) {
      yield* readPropertiesNow(reading, page, isVerified);
      page = [];
      bytes = 0;
    }
    if (done === true) return;
    if (typeof text === "string") {
      yield text;
      continue;
    }
    page.push(id ?? "");
    bytes += size ?? 0;
  }
}

/** Reads the properties of a page of ids, in as many queries as they need now. */
async function* readPropertiesNow(
  reading: Reading,
  ids: readonly string[],
  isVerified: boolean,
): AsyncGenerator<string> {
  for (let rest = ids; rest.length > 0; ) {
    const values = { ...requestedIdOf(reading), ids: JSON.stringify(rest), isVerified: Number(isVerified) };
    const rows = await all(reading.db, propertiesOfPage(values));
    const unread = rows.find(({ properties }) => properties === null);
    for (const { properties } of rows) if (properties !== null) yield properties;
    rest = unread === undefined ? [] : rest.slice(unread.place);
  }
}

/**
 * Returns the merged properties as one JSON object, in pieces. Those of secret keys go first, of each kind the nearest id's value
 * (P9). Numbers keep their digits.
 */
async function* propertiesPieces(reading: Reading, ids: PersonIds): AsyncGenerator<Utf8> {
  const names = new Set<string>();
  yield utf8("{");
  let isFirst = true;
  for (const isVerified of [true, false]) {
    for await (const text of propertiesTexts(reading, ids, isVerified)) {
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
  yield utf8(`{"personId":"${await makePersonId(environmentId, distinctId)}","distinctIds":[`);
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
function hasData({ isPerson, ids: { sizes, recurring, notes }, limits, memberships }: Snapshot): boolean {
  // A user with an override, or with counted usage, has a counter.
  if ([memberships, recurring, notes].some(({ length }) => length > 0)) return true;
  if (limits.some((row) => counterOf(row) !== undefined)) return true;
  return isPerson || [sizes.ledger, sizes.metering, sizes.consent].some(({ rows }) => rows > 0);
}

/** With more ids, the whole document would be too large for memory. */
const SNAPSHOT_IDS_MAX = 1_000;

/** Returns whether the snapshot has all rows. Then `documentPieces` reads nothing more from the database. */
export function fitsInSnapshot({ ids, first, firstBalances, isPerson, memberships }: Snapshot): boolean {
  return (
    memberships.every(({ rows }) => rows === 0) &&
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

/** Returns the usage events that the person paid for, and then those that it used as a member (ME4). */
async function* meteringPieces({ reading, ids, first, memberships }: Snapshot): AsyncGenerator<Utf8> {
  yield* entryPieces(reading, "metering", boundsOf(ids, "metering"), first.metering);
  yield* memberEventPieces(reading, memberships);
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
    yield utf8(`]},"usageLimits":${limits},"notes":[${ids.notes.join()}],"exports":[`);
    yield* list("exports");
    yield utf8("]}");
  } else {
    yield utf8("null");
  }
  yield utf8(',"events":{"analytics":[');
  yield* list("analytics");
  yield utf8('],"metering":[');
  yield* withCommas(meteringPieces(snapshot));
  yield utf8(']},"consentLog":[');
  yield* list("consent");
}

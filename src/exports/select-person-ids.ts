import { and, desc, eq, type SQL, sql } from "drizzle-orm";
import { alias, type SQLiteColumn } from "drizzle-orm/sqlite-core";
import { hasTooManyRecurring, recurringBytes, recurringJson } from "../books/recurring/recurring.ts";
import { asInteger, computed, query, read, type ValueOf } from "../db/query.ts";
import { accounts, consentLog, creditLedger, exportAudit, idProperties, usageEvents } from "../db/schema.ts";
import { type PersonKey, personTable, withPerson } from "../people/person-walk.ts";
import { exportedNotes } from "../people/user-notes.ts";

/** A person with at most this many ids is read with a row for each id, which reads the fewest rows. */
const FEW_IDS = 150;
/** For a larger person, how many ids' properties are read with the snapshot. Those of other ids than the requested are small. */
export const FIRST_PROPERTIES = 32;
const FIRST_PROPERTIES_BYTES_MAX = 32_768;
export const EXPORTED_IDS_MAX = 1_000_000;
/** The most characters of all ids together. For a moment they are in memory twice. */
const ID_CHARACTERS_MAX = 20_000_000;
/**
 * A chunk has at most this many bytes and one more id. An id's recurring grants have up to 1.5 MB and its notes up to 0.3 MB, and D1
 * takes rows of 2 MB.
 */
const BYTES_OF_CHUNK = 150_000;
/** More than the fields and separators of an id's line. */
const ID_LINE_BYTES = 250;

const columns = [
  "firstSeenAtMs",
  "lastSeenAtMs",
  "claimedBy",
  "claimedVia",
  "claimedAtMs",
  "claimIsVerified",
  "eventBytes",
  "eventCount",
  "deletedCount",
  "replacedCount",
] as const;

const lastSeqs = (seq: SQLiteColumn, where: SQL | undefined, ...order: readonly SQL[]) =>
  sql`(SELECT ${seq} FROM ${seq.table} WHERE ${where} ORDER BY ${sql.join([...order, desc(seq)], sql`, `)} LIMIT 1)`;
const recordOfId = (table: { readonly environmentId: SQLiteColumn; readonly distinctId: SQLiteColumn }) =>
  and(eq(table.environmentId, personTable.environmentId), eq(table.distinctId, personTable.distinctId));
const rowOfAccount = ({ accountId }: { readonly accountId: SQLiteColumn }) => eq(accountId, accounts.id);

/** Control characters separate ids and fields, because ids contain none (W9). */
const TAB = sql`char(9)`;
/** SQL: the id that claims an id. It is empty if that is the requested id, which usually claims most ids. */
const claimer = (value: ValueOf<PersonKey>) =>
  sql`iif(${personTable.claimedBy} = ${value("distinctId")}, '', coalesce(${personTable.claimedBy}, ''))`;

/** SQL: an id, its claimer, and its fields in the order in which `readIdLine` reads them. */
function idLine(value: ValueOf<PersonKey>): SQL {
  const fields = [
    personTable.claimedAtMs,
    sql`iif(${personTable.claimedVia} = 'alias', 1, 0) + 2 * coalesce(${personTable.claimIsVerified}, 0)`,
    sql`nullif(${personTable.eventCount}, 0)`,
    lastSeqs(usageEvents.seq, rowOfAccount(usageEvents)),
    lastSeqs(creditLedger.seq, rowOfAccount(creditLedger)),
    lastSeqs(consentLog.seq, recordOfId(consentLog)),
    lastSeqs(exportAudit.seq, recordOfId(exportAudit)),
    sql`octet_length(${verifiedProperties.properties})`,
    sql`octet_length(${otherProperties.properties})`,
    sql`nullif(${personTable.deletedCount}, 0)`,
    sql`nullif(${personTable.replacedCount}, 0)`,
  ];
  const joined = sql.join(
    fields.map((field) => sql`${field}`),
    sql`, ',', `,
  );
  return sql`${personTable.distinctId} || ${TAB} || ${claimer(value)} || ${TAB} || rtrim(concat(${joined}), ',')`;
}

/** The properties of an id of `person`: what secret keys set, and what other keys set. */
const [verifiedProperties, otherProperties] = [alias(idProperties, "verified"), alias(idProperties, "other")];

/** FROM: the ids of `person` with their accounts and properties. */
const fromPerson = () => sql`FROM ${personTable}
  LEFT JOIN ${accounts} ON ${and(
    eq(accounts.environmentId, personTable.environmentId),
    eq(accounts.userId, personTable.distinctId),
  )}
  LEFT JOIN ${idProperties} AS ${verifiedProperties} ON ${recordOfId(verifiedProperties)} AND ${verifiedProperties.isVerified} = 1
  LEFT JOIN ${idProperties} AS ${otherProperties} ON ${recordOfId(otherProperties)} AND ${otherProperties.isVerified} = 0`;

/** SQL: the properties if they are small, or of the requested id. */
const ifSmallOrOwn = (value: ValueOf<PersonKey>, { properties }: { readonly properties: SQLiteColumn }) => sql<
  string | null
>`iif(
  ${personTable.distinctId} = ${value("distinctId")} OR octet_length(${properties}) <= ${FIRST_PROPERTIES_BYTES_MAX}, ${properties}, NULL
)`;
const propertiesBytes = () =>
  sql<number>`(coalesce(octet_length(${verifiedProperties.properties}), 0) + coalesce(octet_length(${otherProperties.properties}), 0))`;
const propertiesCount = () =>
  sql<number>`((${verifiedProperties.version} IS NOT NULL) + (${otherProperties.version} IS NOT NULL))`;

export interface ChunkRow {
  /** The lines of its ids. Null when there are more characters than `ID_CHARACTERS_MAX`, or too many recurring grants. */
  readonly lines: string | null;
  readonly ids: number;
  readonly firstSeenAtMs: number | null;
  readonly lastSeenAtMs: number | null;
  readonly analyticsBytes: number | null;
  readonly propertiesBytes: number | null;
  readonly propertiesCount: number;
  /** The properties of one of the first ids. */
  readonly verified: string | null;
  readonly other: string | null;
  /** The recurring grants of the chunk's ids, separated by commas. Null when there are none. */
  readonly recurring: string | null;
  /** The notes on the chunk's ids, separated by commas. Null when there are none. */
  readonly notes: string | null;
}

/** The first ids, one row each. These are all ids unless `hasMoreIds` returns true. */
export const findFewIds = query((value: ValueOf<PersonKey>) => {
  const row = computed({
    lines: sql<string | null>`iif(${hasTooManyRecurring()}, NULL, ${idLine(value)})`,
    ids: sql<number>`1`,
    firstSeenAtMs: sql<number | null>`${personTable.firstSeenAtMs}`,
    lastSeenAtMs: sql<number | null>`${personTable.lastSeenAtMs}`,
    analyticsBytes: sql<number | null>`${personTable.eventBytes}`,
    propertiesBytes: propertiesBytes(),
    propertiesCount: propertiesCount(),
    verified: ifSmallOrOwn(value, verifiedProperties),
    other: ifSmallOrOwn(value, otherProperties),
    recurring: recurringJson(),
    notes: exportedNotes(value),
  });
  return read(
    row,
    (list) => sql`${withPerson(value, { idsMax: FEW_IDS + 1, columns })} SELECT ${list} ${fromPerson()}`,
  );
});

export const hasMoreIds = (few: readonly ChunkRow[]): boolean => few.length > FEW_IDS;

/** All ids in chunks, in order. Each of the first ids has a separate chunk with its properties. */
export const findManyIds = query((value: ValueOf<PersonKey>) => {
  const row = computed({
    lines: sql<
      string | null
    >`iif(max(item.characters) > ${ID_CHARACTERS_MAX} OR max(item.isTooLarge), NULL, group_concat(item.entry, char(10)))`,
    ids: sql<number>`count(*)`,
    firstSeenAtMs: sql<number | null>`min(item.earliest)`,
    lastSeenAtMs: sql<number | null>`max(item.latest)`,
    analyticsBytes: sql<number | null>`sum(item.analytics)`,
    propertiesBytes: sql<number | null>`sum(item.size)`,
    propertiesCount: sql<number>`sum(item.names)`,
    verified: sql<string | null>`max(item.verified)`,
    other: sql<string | null>`max(item.other)`,
    recurring: sql<string | null>`group_concat(item.recurring)`,
    notes: sql<string | null>`group_concat(item.noted)`,
  });
  const [first, chunk] = [asInteger(sql`${FIRST_PROPERTIES}`), asInteger(sql`${BYTES_OF_CHUNK}`)];
  const ifFirst = (shown: SQL) => sql`iif(row_number() OVER w <= ${first}, ${shown}, NULL)`;
  const bytesOf = (text: SQL | SQLiteColumn) => sql`octet_length(${text})`;
  const ids = sql`
    SELECT row_number() OVER w AS n, sum(length(${personTable.distinctId}) + length(${claimer(value)})) OVER w AS characters,
      sum(${ID_LINE_BYTES} + ${bytesOf(personTable.distinctId)} + ${bytesOf(claimer(value))} + ${recurringBytes()}
        + coalesce(octet_length(${exportedNotes(value)}), 0)) OVER w AS weight,
      ${idLine(value)} || ${TAB} || row_number() OVER w AS entry,
      ${personTable.firstSeenAtMs} AS earliest, ${personTable.lastSeenAtMs} AS latest, ${personTable.eventBytes} AS analytics,
      ${propertiesBytes()} AS size, ${propertiesCount()} AS names,
      ${ifFirst(ifSmallOrOwn(value, verifiedProperties))} AS verified, ${ifFirst(ifSmallOrOwn(value, otherProperties))} AS other,
      ${recurringJson()} AS recurring, ${hasTooManyRecurring()} AS isTooLarge,
      ${exportedNotes(value)} AS noted
    ${fromPerson()} WINDOW w AS (ROWS UNBOUNDED PRECEDING)`;
  return read(
    row,
    (list) => sql`${withPerson(value, { idsMax: EXPORTED_IDS_MAX + 1, columns })} SELECT ${list} FROM (${ids}) AS item
      GROUP BY iif(item.n <= ${first}, item.n - ${first} - 1, item.weight / ${chunk})`,
  );
});

import { and, desc, eq, notInArray, type SQL, sql } from "drizzle-orm";
import { presenter, wire } from "../db/presenter.ts";
import { asInteger, computed, drizzle, fields, insertFrom, query, scalar, type ValueOf } from "../db/query.ts";
import { environments, exportAudit } from "../db/schema.ts";
import { all, type Statement } from "../db/sql.ts";
import { invalidCursor } from "../errors.ts";
import { cutPage, decodeTextCursor, encodeTextCursor } from "../lib/cursor.ts";
import type { Mode, TenantCtx } from "../runtime.ts";

/** The person of an audit row. */
export interface Subject {
  readonly appId: string;
  readonly mode: Mode;
  readonly distinctId: string;
}

/**
 * A row of the audit. Its id is generated before the write, so that a repeated write takes effect once. It has the SHA-256 of the
 * token, never the token.
 */
export type ExportAuditRow = Pick<
  typeof exportAudit.$inferSelect,
  "id" | "action" | "tokenHash" | "keyId" | "occurredAtMs" | "expiresAtMs"
>;

/** A repeated write searches this many of the newest rows for its own. Far fewer are written between two attempts. */
const NEWEST_ROWS = 50;

const newestOfSubject = (value: ValueOf<Subject>, name: "id" | "seq", count: number) =>
  drizzle
    .select(fields(exportAudit, name))
    .from(exportAudit)
    .where(and(eq(exportAudit.environmentId, environments.id), eq(exportAudit.distinctId, value("distinctId"))))
    .orderBy(desc(exportAudit.seq))
    .limit(count);

const ofSubject = (value: ValueOf<Subject>) =>
  and(eq(environments.appId, value("appId")), eq(environments.mode, value("mode")));

/** Returns the statement that appends a row if `when` is true and the row is not there yet. */
const appendRow = <Values = Subject & ExportAuditRow>(
  when: (value: ValueOf<Values & Subject & ExportAuditRow>) => SQL = () => sql`1`,
) =>
  query((value: ValueOf<Values & Subject & ExportAuditRow>) => {
    const isNew = notInArray(sql`${value("id")}`, newestOfSubject(value, "id", NEWEST_ROWS));
    return insertFrom(
      exportAudit,
      {
        environmentId: environments.id,
        distinctId: value("distinctId"),
        seq: sql`1 + coalesce(${scalar(newestOfSubject(value, "seq", 1))}, 0)`,
        id: value("id"),
        action: value("action"),
        tokenHash: value("tokenHash"),
        keyId: value("keyId"),
        occurredAtMs: asInteger(value("occurredAtMs")),
        expiresAtMs: asInteger(value("expiresAtMs")),
      },
      sql`FROM ${environments} WHERE ${and(ofSubject(value), isNew, when(value))}`,
    );
  });
const append = appendRow();

/**
 * Appends a row to the audit of exports (P13). It writes nothing if the application does not exist, or if the row is already
 * there.
 */
export function insertAuditRow({ appId, mode, distinctId }: Subject, row: ExportAuditRow): Statement<never> {
  return append({ ...row, appId, mode, distinctId });
}

type OfOpening = Subject & { openingId: string };
/** SQL: whether the row of an opening still has the name under which it was written. An erasure moves it to the id's hash for good. */
const isUnderName = (value: ValueOf<OfOpening>): SQL => {
  const { environmentId, distinctId, id, seq } = exportAudit;
  const opening = drizzle
    .select(fields(exportAudit, "id"))
    .from(exportAudit)
    .where(and(eq(environmentId, environments.id), eq(distinctId, value("distinctId")), eq(id, value("openingId"))))
    // The opening is among the newest rows.
    .orderBy(desc(seq))
    .limit(1);
  return sql`${scalar(opening)} IS NOT NULL`;
};
const appendUnderName = appendRow<OfOpening>(isUnderName);
const selectUnderName = query((value: ValueOf<OfOpening>) =>
  drizzle
    .select(computed({ isUnderName: isUnderName(value).mapWith(Boolean) }))
    .from(environments)
    .where(ofSubject(value)),
);

/**
 * Ends the export of an opening with the row `completed`, or `failed` if its person was erased since. The first statement returns
 * whether the export is complete.
 */
export function completeExport(
  subject: Subject,
  openingId: string,
  row: ExportAuditRow,
): readonly [Statement<{ isUnderName: boolean }>, ...Statement<never>[]] {
  const values = { ...row, appId: subject.appId, mode: subject.mode, distinctId: subject.distinctId, openingId };
  return [
    selectUnderName(values),
    appendUnderName({ ...values, action: "completed" }),
    insertAuditRow(subject, { ...row, action: "failed" }),
  ];
}

/**
 * Ends the export of an opening with the row `failed`. The first statement returns whether the opening's row still has the name
 * `openedAs`: if not, its person was erased since.
 */
export function failExport(
  subject: Subject,
  openingId: string,
  openedAs: string,
  row: ExportAuditRow,
): readonly [Statement<{ isUnderName: boolean }>, ...Statement<never>[]] {
  const { appId, mode } = subject;
  return [
    selectUnderName({ appId, mode, distinctId: openedAs, openingId }),
    insertAuditRow(subject, { ...row, action: "failed" }),
  ];
}

const { plain, time } = wire(exportAudit);

/** The public fields of an audit row, which the person sees too. */
export const exportAuditFields = {
  action: plain("action"),
  distinctId: plain("distinctId"),
  tokenHash: plain("tokenHash"),
  keyId: plain("keyId"),
  occurredAt: time("occurredAtMs"),
};

export const presentAuditRow = presenter(exportAuditFields);

const auditRowFields = () => fields(exportAudit, "distinctId", "seq", "action", "tokenHash", "keyId", "occurredAtMs");
const isAuditOfEnvironment = (value: ValueOf<{ environmentId: number }>) =>
  eq(exportAudit.environmentId, value("environmentId"));

/** How many rows of the audit a page reads. */
export const SEARCHED_LINKS_MAX = 1_000;

const selectAuditRows = query((value: ValueOf<{ environmentId: number; distinctId: string; seq: number }>) => {
  const { distinctId, seq } = exportAudit;
  return drizzle
    .select(auditRowFields())
    .from(exportAudit)
    .where(and(isAuditOfEnvironment(value), sql`(${distinctId}, ${seq}) > (${value("distinctId")}, ${value("seq")})`))
    .orderBy(distinctId, seq)
    .limit(SEARCHED_LINKS_MAX + 1);
});

/**
 * Returns the export links of all people that were created or opened in a span of time. The audit has no index by time, so a
 * page reads `SEARCHED_LINKS_MAX` rows in the order of distinct ids. It may have few links although more follow. Within a
 * page the latest links come first. Throws `invalid_request` for another list's cursor.
 */
export async function findLinks(
  ctx: TenantCtx,
  { action, fromMs, toMs }: { readonly action: "minted" | "opened"; readonly fromMs: number; readonly toMs: number },
  cursor: string | undefined,
) {
  const environmentId = ctx.environment.id;
  const scope = ["export links", environmentId, action, fromMs, toMs];
  const text = cursor === undefined ? '["",0]' : decodeTextCursor(cursor, scope);
  if (text === null) throw invalidCursor();
  // The cursor's checksum proves that the code below wrote it.
  const [distinctId, seq] = JSON.parse(text) as [string, number];
  const rows = await all(ctx.db, selectAuditRows({ environmentId, distinctId, seq }));
  const { page, last } = cutPage(rows, SEARCHED_LINKS_MAX);
  return {
    links: page
      .filter((row) => row.action === action && row.occurredAtMs >= fromMs && row.occurredAtMs < toMs)
      .toSorted((a, b) => b.occurredAtMs - a.occurredAtMs)
      .map((row) => ({ ...presentAuditRow(row), seq: row.seq })),
    nextCursor: last === undefined ? null : encodeTextCursor(JSON.stringify([last.distinctId, last.seq]), scope),
  };
}

/** The most rows of a person, and of each of their ids, that a list reads. */
const LISTED_EVENTS_MAX = 50;

const newestOfIds = query((value: ValueOf<{ environmentId: number; ids: string }>) => {
  const ofId = and(isAuditOfEnvironment(value), sql`${exportAudit.distinctId} = item.value`);
  const newest = drizzle
    .select(fields(exportAudit, "seq"))
    .from(exportAudit)
    .where(ofId)
    .orderBy(desc(exportAudit.seq))
    .limit(1);
  return drizzle
    .select(auditRowFields())
    .from(sql`json_each(${value("ids")}) AS item`)
    .crossJoin(exportAudit)
    .where(and(ofId, sql`${exportAudit.seq} > ${scalar(newest)} - ${LISTED_EVENTS_MAX}`))
    .orderBy(desc(exportAudit.occurredAtMs), desc(exportAudit.seq))
    .limit(LISTED_EVENTS_MAX);
});

/** Returns the export history of these ids, newest first. */
export async function listExportEvents(ctx: TenantCtx, distinctIds: readonly string[]) {
  const values = { environmentId: ctx.environment.id, ids: JSON.stringify(distinctIds) };
  return (await all(ctx.db, newestOfIds(values))).map(presentAuditRow);
}

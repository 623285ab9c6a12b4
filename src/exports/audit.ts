import { and, desc, eq, notInArray, sql } from "drizzle-orm";
import { presenter, wire } from "../db/presenter.ts";
import { asInteger, drizzle, fields, insertFrom, query, scalar, type ValueOf } from "../db/query.ts";
import { environments, exportAudit } from "../db/schema.ts";
import type { Statement } from "../db/sql.ts";
import type { Mode } from "../runtime.ts";

/** The person of an audit row. */
export interface Subject {
  readonly appId: string;
  readonly mode: Mode;
  readonly distinctId: string;
}

/**
 * A row of the audit. Its id is created before the write, so that a repeated write takes effect once. It has the SHA-256 of the
 * token, never the token itself.
 */
export type AuditRow = Pick<typeof exportAudit.$inferSelect, "id" | "action" | "tokenHash" | "keyId" | "occurredAtMs">;

/** How many of the newest rows a repeated write searches for its own. Far fewer rows are written between two attempts. */
const NEWEST = 50;

const newestOfSubject = (value: ValueOf<Subject>, name: "id" | "seq", count: number) =>
  drizzle
    .select(fields(exportAudit, name))
    .from(exportAudit)
    .where(and(eq(exportAudit.environmentId, environments.id), eq(exportAudit.distinctId, value("distinctId"))))
    .orderBy(desc(exportAudit.seq))
    .limit(count);

const appendRow = query((value: ValueOf<Subject & AuditRow>) => {
  const isNew = notInArray(sql`${value("id")}`, newestOfSubject(value, "id", NEWEST));
  const ofSubject = and(eq(environments.appId, value("appId")), eq(environments.mode, value("mode")));
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
    },
    sql`FROM ${environments} WHERE ${and(ofSubject, isNew)}`,
  );
});

/**
 * Appends a row to the audit of exports (P13). It writes nothing if the application does not exist, or if the row is already
 * there.
 */
export function insertAuditRow({ appId, mode, distinctId }: Subject, row: AuditRow): Statement<never> {
  return appendRow({ ...row, appId, mode, distinctId });
}

const { plain, time } = wire(exportAudit);

/** What is shown of an audit row, to the person too. */
export const auditFields = {
  action: plain("action"),
  distinctId: plain("distinctId"),
  tokenHash: plain("tokenHash"),
  keyId: plain("keyId"),
  occurredAt: time("occurredAtMs"),
};

export const presentAuditRow = presenter(auditFields);

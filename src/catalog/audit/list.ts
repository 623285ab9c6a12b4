import { and, desc, eq, lt } from "drizzle-orm";
import { drizzle, fields, query, type ValueOf } from "../../db/query.ts";
import { adminAudit } from "../../db/schema.ts";
import { all, type RowsOf } from "../../db/sql.ts";
import { invalidCursor } from "../../errors.ts";
import { decodeCursor, encodeCursor } from "../../lib/cursor.ts";
import { iso } from "../../lib/time.ts";
import type { SystemCtx } from "../../runtime.ts";
import type { Action } from "./audit-statement.ts";
import type { AuditEntry, ListAuditOutput } from "./responses.ts";
import type { ListAuditInput } from "./schemas.ts";

export const auditFields = () =>
  fields(adminAudit, {
    seq: "seq",
    atMs: "atMs",
    by: "actor",
    action: "action",
    target: "target",
    details: "details",
  });

const selectEntries = query((value: ValueOf<{ appId: string; beforeSeq: number; limit: number }>) =>
  drizzle
    .select(auditFields())
    .from(adminAudit)
    .where(and(eq(adminAudit.appId, value("appId")), lt(adminAudit.seq, value("beforeSeq"))))
    .orderBy(desc(adminAudit.seq))
    .limit(value("limit")),
);
export type AuditRow = RowsOf<[ReturnType<typeof selectEntries>]>[0][number];

/** The audit log of an existing application, newest first. Throws `invalid_request` for a cursor of another list. */
export async function listAudit(root: SystemCtx, appId: string, input: ListAuditInput): Promise<ListAuditOutput> {
  const scope = ["admin_audit", appId];
  const beforeSeq = input.cursor === undefined ? Number.MAX_SAFE_INTEGER : decodeCursor(input.cursor, scope);
  if (beforeSeq === null) throw invalidCursor();
  const rows = await all(root.db, selectEntries({ appId, beforeSeq, limit: input.limit }));
  const last = rows.at(-1);
  return {
    entries: rows.map(presentEntry),
    // seq is gapless from 1.
    nextCursor: last === undefined || last.seq === 1 ? null : encodeCursor(last.seq, scope),
  };
}

/** An entry as the API returns it. */
export function presentEntry(row: AuditRow): AuditEntry {
  return {
    at: iso(row.atMs),
    by: row.by,
    // Only `auditStatement` writes rows, from values of these types.
    action: row.action as Action,
    target: row.target,
    details: row.details,
  };
}

import { all, type RowOf, select, statement } from "../db/sql.ts";
import { adminAudit } from "../db/tables.ts";
import { invalidCursor } from "../errors.ts";
import { decodeCursor, encodeCursor } from "../lib/cursor.ts";
import { iso } from "../lib/time.ts";
import type { SystemCtx } from "../runtime.ts";
import type { Action } from "./audit-statement.ts";
import type { AuditEntry, ListAuditOutput } from "./responses.ts";
import type { ListAuditInput } from "./schemas.ts";

export const auditColumns = {
  seq: adminAudit.seq,
  atMs: adminAudit.atMs,
  by: adminAudit.actor,
  action: adminAudit.action,
  target: adminAudit.target,
  details: adminAudit.details,
};

const selectEntries = statement<{ appId: string; beforeSeq: number; limit: number }, RowOf<typeof auditColumns>>`
  SELECT ${select(auditColumns)} FROM admin_audit
  WHERE app_id = :appId AND seq < :beforeSeq ORDER BY seq DESC LIMIT :limit`;

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
export function presentEntry(row: RowOf<typeof auditColumns>): AuditEntry {
  return {
    at: iso(row.atMs),
    by: row.by,
    // Only `auditStatement` writes rows, from values of these types.
    action: row.action as Action,
    target: row.target,
    details: JSON.parse(row.details) as Record<string, unknown>,
  };
}

import { and, desc, eq, lt } from "drizzle-orm";
import { maySeeUsers } from "../auth/scopes.ts";
import { boundLimit, drizzle, fields, optional, query, scalar, type ValueOf } from "../db/query.ts";
import { accounts, adminAudit, environments } from "../db/schema.ts";
import { all, type StatementRow } from "../db/sql.ts";
import { invalidCursor } from "../errors.ts";
import { decodeCursor, encodeCursor } from "../lib/cursor.ts";
import { iso } from "../lib/time.ts";
import type { Mode, SystemCtx } from "../runtime.ts";
import { type Action, auditOfApp } from "./audit.ts";

export interface AuditEntry {
  readonly at: string;
  readonly by: string;
  readonly action: Action;
  readonly target: string | null;
  readonly userId: string | null;
  readonly details: { readonly [name: string]: unknown };
}

export interface ListAuditOutput {
  readonly entries: AuditEntry[];
  readonly nextCursor: string | null;
}

export interface ListAuditInput {
  readonly limit: number;
  readonly cursor?: string | undefined;
  readonly userId?: string | undefined;
  readonly mode?: Mode | undefined;
}

export const auditFields = () => ({
  ...fields(adminAudit, {
    seq: "seq",
    atMs: "atMs",
    by: "actor",
    action: "action",
    target: "target",
    details: "details",
  }),
  ...optional(fields(accounts, "userId")),
});
/** The user whom an audit entry is about. */
export const isAuditedUser = eq(accounts.id, adminAudit.accountId);

const selectAuditEntries = query((value: ValueOf<{ appId: string; beforeSeq: number; limit: number }>) =>
  drizzle
    .select(auditFields())
    .from(adminAudit)
    .leftJoin(accounts, isAuditedUser)
    .where(and(auditOfApp(value), lt(adminAudit.seq, value("beforeSeq"))))
    .orderBy(desc(adminAudit.seq))
    .limit(boundLimit(value("limit"))),
);
export type AuditOfUser = { appId: string; mode: Mode; userId: string };

/** The entries about a user. An erased user has a pseudonym as the id. */
export const isAbout = (value: ValueOf<AuditOfUser>) => {
  const { appId, mode, id } = environments;
  const user = drizzle
    .select(fields(accounts, "id"))
    .from(environments)
    .innerJoin(accounts, and(eq(accounts.environmentId, id), eq(accounts.userId, value("userId"))))
    .where(and(eq(appId, value("appId")), eq(mode, value("mode"))));
  return and(auditOfApp(value), eq(adminAudit.accountId, scalar(user)));
};

const selectAbout = query((value: ValueOf<AuditOfUser & { beforeSeq: number; limit: number }>) =>
  drizzle
    .select(auditFields())
    .from(adminAudit)
    .leftJoin(accounts, isAuditedUser)
    .where(and(isAbout(value), lt(adminAudit.seq, value("beforeSeq"))))
    .orderBy(desc(adminAudit.seq))
    .limit(boundLimit(value("limit"))),
);
export type AuditRow = StatementRow<typeof selectAuditEntries>;

/**
 * Returns a page of the audit log of an existing application, or of no application (`NO_APP`), newest first, of all users or about
 * one, and the number of its newest entry.
 * Throws `invalid_request` for a cursor of another list.
 */
export async function listAudit(
  root: SystemCtx,
  appId: string,
  input: ListAuditInput,
): Promise<{ page: ListAuditOutput; newestSeq: number }> {
  const { mode, userId, limit } = input;
  const scope = ["admin_audit", appId, mode ?? "", userId ?? ""];
  const beforeSeq = input.cursor === undefined ? Number.MAX_SAFE_INTEGER : decodeCursor(input.cursor, scope);
  if (beforeSeq === null) throw invalidCursor();
  const page = { appId, beforeSeq, limit };
  const isOfUser = mode !== undefined && userId !== undefined;
  const rows = await all(root.db, isOfUser ? selectAbout({ ...page, mode, userId }) : selectAuditEntries(page));
  const last = rows.at(-1);
  // The seq of entries begins at 1 and has no gaps.
  const isEnd = last === undefined || last.seq === 1 || (isOfUser && rows.length < limit);
  const entries = rows.map((row) => presentAuditEntry(root, row));
  return { page: { entries, nextCursor: isEnd ? null : encodeCursor(last.seq, scope) }, newestSeq: rows[0]?.seq ?? 0 };
}

/** Whether callers choose the ids of what actions change. Such an id may name a person. */
const isTargetChosen = (action: string): boolean => action.startsWith("recurring.");

/** Returns an entry in the form of the API. */
export function presentAuditEntry(root: Pick<SystemCtx, "rights">, row: AuditRow): AuditEntry {
  const mayKnow = maySeeUsers(root);
  return {
    at: iso(row.atMs),
    by: row.by,
    // Only `insertAuditEntry` writes rows, from values of these types.
    action: row.action as Action,
    target: mayKnow || !isTargetChosen(row.action) ? row.target : null,
    userId: mayKnow ? row.userId : null,
    details: row.details,
  };
}

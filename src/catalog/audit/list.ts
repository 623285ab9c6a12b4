import { and, desc, eq, lt, type SQL, sql } from "drizzle-orm";
import { computed, drizzle, fields, query, type ValueOf } from "../../db/query.ts";
import { adminAudit } from "../../db/schema.ts";
import { all, batch, type RowsOf } from "../../db/sql.ts";
import { invalidCursor } from "../../errors.ts";
import { decodeCursor, encodeCursor } from "../../lib/cursor.ts";
import { iso } from "../../lib/time.ts";
import type { SystemCtx } from "../../runtime.ts";
import type { Action } from "./audit-statement.ts";
import type { AuditEntry, ListAuditOutput } from "./responses.ts";
import type { ListAuditInput } from "./schemas.ts";

const auditFields = () =>
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

/** Returns the audit log of an existing application, newest first. Throws `invalid_request` for a cursor of another list. */
export async function listAudit(root: SystemCtx, appId: string, input: ListAuditInput): Promise<ListAuditOutput> {
  const scope = ["admin_audit", appId];
  const beforeSeq = input.cursor === undefined ? Number.MAX_SAFE_INTEGER : decodeCursor(input.cursor, scope);
  if (beforeSeq === null) throw invalidCursor();
  const rows = await all(root.db, selectEntries({ appId, beforeSeq, limit: input.limit }));
  const last = rows.at(-1);
  return {
    entries: rows.map(presentEntry),
    // seq has no gaps and begins at 1.
    nextCursor: last === undefined || last.seq === 1 ? null : encodeCursor(last.seq, scope),
  };
}

/** Returns an entry in the form of the API. */
function presentEntry(row: AuditRow): AuditEntry {
  return {
    at: iso(row.atMs),
    by: row.by,
    // Only `insertAct` writes rows, from values of these types.
    action: row.action as Action,
    target: row.target,
    details: row.details,
  };
}

/** How many entries one page of a search examines. Only the target has an index. */
export const searchedActsMax = 1_000;

export interface AuditFilters {
  readonly by: string | undefined;
  /** An action, or the first characters of several, such as `pack.`. */
  readonly action: string | undefined;
  readonly target: string | undefined;
}

type Values = {
  appId: string;
  beforeSeq: number;
  limit: number;
  by: string | null;
  action: string;
  target: string | null;
};

const ofApp = (value: ValueOf<{ appId: string }>) => eq(adminAudit.appId, value("appId"));
const startsWith = (value: ValueOf<{ action: string }>) =>
  sql`substr(${adminAudit.action}, 1, length(${value("action")})) = ${value("action")}`;
/** Returns the newest of some entries, under the name `admin_audit`. */
const newestOf = (entries: SQL) =>
  sql`(SELECT * FROM ${adminAudit} ${entries} ORDER BY ${adminAudit.seq} DESC LIMIT ${searchedActsMax}) AS ${adminAudit}`;
const ofTarget = sql`INDEXED BY admin_audit_target`;

/** Returns the queries of a search: the matching entries, and where the examined ones end. One form uses the target's index. */
function search(isOfTarget: boolean) {
  const searched = (value: ValueOf<Values>) => {
    const before = lt(adminAudit.seq, value("beforeSeq"));
    return newestOf(
      isOfTarget
        ? sql`${ofTarget} WHERE ${and(ofApp(value), eq(adminAudit.target, value("target")), before)}`
        : sql`WHERE ${and(ofApp(value), before)}`,
    );
  };
  return {
    rows: query((value: ValueOf<Values>) =>
      drizzle
        .select(auditFields())
        .from(searched(value))
        .where(and(sql`(${value("by")} IS NULL OR ${adminAudit.actor} = ${value("by")})`, startsWith(value)))
        .limit(value("limit")),
    ),
    end: query((value: ValueOf<Values>) =>
      drizzle
        .select(computed({ lastSeq: sql<number | null>`min(${adminAudit.seq})`, searched: sql<number>`count(*)` }))
        .from(searched(value)),
    ),
  };
}
const searches = { ofApp: search(false), ofTarget: search(true) };

export interface AuditSearch {
  readonly entries: readonly AuditEntry[];
  readonly nextCursor: string | null;
}

/**
 * Returns the entries that pass the filters, newest first, among the next `searchedActsMax`. A page may have fewer than `limit`,
 * or none, although others follow. Throws `invalid_request` for a cursor of another search.
 */
export async function searchAudit(
  root: SystemCtx,
  appId: string,
  { by, action, target }: AuditFilters,
  { limit, cursor }: { limit: number; cursor?: string | undefined },
): Promise<AuditSearch> {
  const scope = ["audit search", appId, by ?? "", action ?? "", target ?? ""];
  const beforeSeq = cursor === undefined ? Number.MAX_SAFE_INTEGER : decodeCursor(cursor, scope);
  if (beforeSeq === null) throw invalidCursor();
  const values = { appId, beforeSeq, limit, by: by ?? null, action: action ?? "", target: target ?? null };
  const { rows: selectRows, end: selectEnd } = searches[target === undefined ? "ofApp" : "ofTarget"];
  const [rows, [end]] = await batch(root.db, [selectRows(values), selectEnd(values)]);
  const last = rows.length === limit ? rows.at(-1)?.seq : end?.lastSeq;
  const isMore = rows.length === limit || end?.searched === searchedActsMax;
  const next = typeof last === "number" && last > 1 && isMore ? encodeCursor(last, scope) : null;
  return { entries: rows.map(presentEntry), nextCursor: next };
}

const selectActs = query((value: ValueOf<{ appId: string; targets: string; action: string }>) =>
  drizzle
    .select(auditFields())
    .from(sql`${adminAudit} ${ofTarget}`)
    .where(
      and(
        ofApp(value),
        sql`${adminAudit.target} IN (SELECT value FROM json_each(${value("targets")}))`,
        startsWith(value),
      ),
    )
    .orderBy(desc(adminAudit.seq))
    .limit(searchedActsMax),
);

/** Returns the acts on some targets, newest first: at most `searchedActsMax` acts. */
export async function listActs(
  root: Pick<SystemCtx, "db">,
  appId: string,
  targets: readonly string[],
  action = "",
): Promise<readonly AuditEntry[]> {
  if (targets.length === 0) return [];
  return (await all(root.db, selectActs({ appId, targets: JSON.stringify(targets), action }))).map(presentEntry);
}

const selectGrantAct = query((value: ValueOf<{ appId: string; packId: string; balanceId: string }>) =>
  drizzle
    .select(auditFields())
    .from(newestOf(sql`${ofTarget} WHERE ${and(ofApp(value), eq(adminAudit.target, value("packId")))}`))
    .where(sql`${adminAudit.action} = 'credits.granted' AND instr(${adminAudit.details}, ${value("balanceId")}) > 0`)
    .limit(1),
);

/**
 * Returns who granted a balance in the dashboard, searched among the pack's newest acts. Null when a key granted it, or the act
 * is older.
 */
export async function findGrantAct(
  root: Pick<SystemCtx, "db">,
  appId: string,
  balance: { readonly packId: string; readonly balanceId: string },
): Promise<AuditEntry | null> {
  const { packId, balanceId } = balance;
  const [row] = await all(root.db, selectGrantAct({ appId, packId, balanceId: `"${balanceId}"` }));
  return row === undefined ? null : presentEntry(row);
}

import { all, batch, fragment, type RowOf, select, statement } from "../db/sql.ts";
import { invalidCursor } from "../errors.ts";
import { decodeCursor, encodeCursor } from "../lib/cursor.ts";
import type { SystemCtx } from "../runtime.ts";
import { auditColumns, presentEntry } from "./list.ts";
import type { AuditEntry } from "./responses.ts";

/** How many entries one page of a search looks at. Only the target has an index. */
export const searchedActsMax = 1_000;

export interface AuditFilters {
  readonly by: string | undefined;
  /** An action, or the beginning of several, such as `pack.`. */
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

type AuditRow = RowOf<typeof auditColumns>;

const filtered = fragment`(:by IS NULL OR actor = :by) AND substr(action, 1, length(:action)) = :action`;
const columns = select(auditColumns);

/** The searched entries, and where they end: of one target by its index, or of the application. */
const search = (of: string) => {
  const searched = fragment`
    SELECT * FROM admin_audit ${of} AND seq < :beforeSeq ORDER BY seq DESC LIMIT ${`${searchedActsMax}`}`;
  return {
    rows: statement<Values, AuditRow>`SELECT ${columns} FROM (${searched}) WHERE ${filtered} LIMIT :limit`,
    end: statement<Values, { lastSeq: number | null; searched: number }>`
      SELECT min(seq) AS lastSeq, count(*) AS searched FROM (${searched})`,
  };
};
const ofApp = search("WHERE app_id = :appId AND :target IS NULL");
const ofTarget = search("INDEXED BY admin_audit_target WHERE app_id = :appId AND target = :target");

export interface AuditSearch {
  readonly entries: readonly AuditEntry[];
  readonly nextCursor: string | null;
}

/**
 * A page of the entries that pass the filters, newest first, among the next `searchedActsMax`: it may have fewer than `limit`,
 * or none, while others follow. Throws `invalid_request` for a cursor of another search.
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
  const { rows: selectRows, end: selectEnd } = target === undefined ? ofApp : ofTarget;
  const [rows, [end]] = await batch(root.db, [selectRows(values), selectEnd(values)]);
  const last = rows.length === limit ? rows.at(-1)?.seq : end?.lastSeq;
  const isMore = rows.length === limit || end?.searched === searchedActsMax;
  const next = typeof last === "number" && last > 1 && isMore ? encodeCursor(last, scope) : null;
  return { entries: rows.map(presentEntry), nextCursor: next };
}

const selectActs = statement<{ appId: string; targets: string; action: string }, AuditRow>`
  SELECT ${columns} FROM admin_audit INDEXED BY admin_audit_target
  WHERE app_id = :appId AND target IN (SELECT value FROM json_each(:targets)) AND substr(action, 1, length(:action)) = :action
  ORDER BY seq DESC LIMIT ${`${searchedActsMax}`}`;

/** What was done to some things, newest first: at most `searchedActsMax` acts. */
export async function listActs(
  root: Pick<SystemCtx, "db">,
  appId: string,
  targets: readonly string[],
  action = "",
): Promise<readonly AuditEntry[]> {
  if (targets.length === 0) return [];
  return (await all(root.db, selectActs({ appId, targets: JSON.stringify(targets), action }))).map(presentEntry);
}

const selectGrantAct = statement<{ appId: string; packId: string; balanceId: string }, AuditRow>`
  SELECT ${columns} FROM (
    SELECT * FROM admin_audit INDEXED BY admin_audit_target
    WHERE app_id = :appId AND target = :packId ORDER BY seq DESC LIMIT ${`${searchedActsMax}`}
  ) WHERE action = 'credits.granted' AND instr(details, :balanceId) > 0 LIMIT 1`;

/** Who granted a balance by the dashboard, among the pack's newest acts. Null when a key did, or it is longer ago. */
export async function findGrantAct(
  root: Pick<SystemCtx, "db">,
  appId: string,
  balance: { readonly packId: string; readonly balanceId: string },
): Promise<AuditEntry | null> {
  const { packId, balanceId } = balance;
  const [row] = await all(root.db, selectGrantAct({ appId, packId, balanceId: `"${balanceId}"` }));
  return row === undefined ? null : presentEntry(row);
}

import { and, desc, eq, lt, type SQL, sql } from "drizzle-orm";
import { maySeeUsers } from "../auth/scopes.ts";
import { boundLimit, computed, drizzle, fields, query, scalar, type ValueOf } from "../db/query.ts";
import { accounts, adminAudit, creditLedger } from "../db/schema.ts";
import { all, batch } from "../db/sql.ts";
import { invalidCursor } from "../errors.ts";
import { decodeCursor, encodeCursor } from "../lib/cursor.ts";
import type { Mode, SystemCtx } from "../runtime.ts";
import { auditOfApp } from "./audit.ts";
import { type AuditEntry, auditFields, isAbout, isAuditedUser, presentAuditEntry } from "./audit-page.ts";

/**
 * The fields of an entry in the dashboard. The reason is the note of the action's first ledger entry, because the audit itself stores
 * no free text. So an erasure, which empties the note, also removes the reason.
 */
const shownAuditFields = () => {
  const { details, accountId } = adminAudit;
  const seq = sql`coalesce(${details} ->> '$.seq', ${details} ->> '$.entries[0].seq')`;
  const note = drizzle
    .select(fields(creditLedger, "note"))
    .from(creditLedger)
    .where(and(eq(creditLedger.accountId, accountId), eq(creditLedger.seq, seq)));
  return { ...auditFields(), ...computed({ reason: sql<string | null>`${scalar(note)}` }) };
};

/** How many entries one page of a search examines. Only the target has an index. */
export const SEARCHED_AUDIT_ENTRIES_MAX = 1_000;

export interface AuditFilters {
  readonly by: string | undefined;
  /** An action, or the first characters of several, such as `pack.`. */
  readonly action: string | undefined;
  readonly target: string | undefined;
  readonly user: { readonly mode: Mode; readonly userId: string } | undefined;
}

type AuditValues = {
  appId: string;
  beforeSeq: number;
  limit: number;
  by: string | null;
  action: string;
  target: string | null;
  mode: Mode;
  userId: string;
};

const startsWith = (value: ValueOf<{ action: string }>) =>
  sql`substr(${adminAudit.action}, 1, length(${value("action")})) = ${value("action")}`;
/** Returns the newest of some entries, under the name `admin_audit`. */
const selectNewestEntries = (entries: SQL) =>
  sql`(SELECT * FROM ${adminAudit} ${entries} ORDER BY ${adminAudit.seq} DESC LIMIT ${SEARCHED_AUDIT_ENTRIES_MAX}) AS ${adminAudit}`;
const ofTarget = sql`INDEXED BY admin_audit_target`;

/** The entries that a search examines: all of the application, those on one target, or those about one user. */
const SEARCHED = {
  ofApp: (value: ValueOf<AuditValues>) => sql`WHERE ${auditOfApp(value)}`,
  ofTarget: (value: ValueOf<AuditValues>) =>
    sql`${ofTarget} WHERE ${and(auditOfApp(value), eq(adminAudit.target, value("target")))}`,
  ofUser: (value: ValueOf<AuditValues>) => sql`INDEXED BY admin_audit_account WHERE ${isAbout(value)}`,
};

/** Returns the statements for the searched entries and for the position at which they end. */
function search(entries: (value: ValueOf<AuditValues>) => SQL) {
  const searched = (value: ValueOf<AuditValues>) =>
    selectNewestEntries(sql`${entries(value)} AND ${lt(adminAudit.seq, value("beforeSeq"))}`);
  const isTarget = (value: ValueOf<AuditValues>) =>
    sql`(${value("target")} IS NULL OR ${adminAudit.target} = ${value("target")})`;
  return {
    rows: query((value: ValueOf<AuditValues>) =>
      drizzle
        .select(shownAuditFields())
        .from(searched(value))
        .leftJoin(accounts, isAuditedUser)
        .where(
          and(
            sql`(${value("by")} IS NULL OR ${adminAudit.actor} = ${value("by")})`,
            startsWith(value),
            isTarget(value),
          ),
        )
        .limit(boundLimit(value("limit"))),
    ),
    end: query((value: ValueOf<AuditValues>) =>
      drizzle
        .select(computed({ lastSeq: sql<number | null>`min(${adminAudit.seq})`, searched: sql<number>`count(*)` }))
        .from(searched(value)),
    ),
  };
}
const searches = {
  ofApp: search(SEARCHED.ofApp),
  ofTarget: search(SEARCHED.ofTarget),
  ofUser: search(SEARCHED.ofUser),
};

/** An entry as the dashboard shows it. */
export interface ShownAuditEntry extends AuditEntry {
  /** The reason that the operator gave. Null if the action has none, and after an erasure. */
  readonly reason: string | null;
}

export interface AuditSearch {
  readonly entries: readonly ShownAuditEntry[];
  readonly nextCursor: string | null;
}

/**
 * Returns the entries that pass the filters, newest first, among the next `SEARCHED_AUDIT_ENTRIES_MAX`. A page may have fewer than `limit`,
 * or none, although others follow. Throws `invalid_request` for a cursor of another search.
 */
export async function searchAudit(
  root: SystemCtx,
  appId: string,
  { by, action, target, user }: AuditFilters,
  { limit, cursor }: { limit: number; cursor?: string | undefined },
): Promise<AuditSearch> {
  const scope = ["audit search", appId, by ?? "", action ?? "", target ?? "", user?.mode ?? "", user?.userId ?? ""];
  const beforeSeq = cursor === undefined ? Number.MAX_SAFE_INTEGER : decodeCursor(cursor, scope);
  if (beforeSeq === null) throw invalidCursor();
  const { mode, userId } = user ?? { mode: "live", userId: "" };
  const values = {
    ...{ appId, beforeSeq, limit, by: by ?? null, action: action ?? "", target: target ?? null },
    ...{ mode, userId },
  };
  const kind = user === undefined ? (target === undefined ? "ofApp" : "ofTarget") : "ofUser";
  const { rows: selectRows, end: selectEnd } = searches[kind];
  const [rows, [end]] = await batch(root.db, [selectRows(values), selectEnd(values)]);
  const last = rows.length === limit ? rows.at(-1)?.seq : end?.lastSeq;
  const isMore = rows.length === limit || end?.searched === SEARCHED_AUDIT_ENTRIES_MAX;
  const next = typeof last === "number" && last > 1 && isMore ? encodeCursor(last, scope) : null;
  const entries = rows.map((row) => ({
    ...presentAuditEntry(root, row),
    reason: maySeeUsers(root) ? row.reason : null,
  }));
  return { entries, nextCursor: next };
}

const selectAuditOf = query((value: ValueOf<{ appId: string; targets: string; action: string }>) =>
  drizzle
    .select(auditFields())
    .from(sql`${adminAudit} ${ofTarget}`)
    .leftJoin(accounts, isAuditedUser)
    .where(
      and(
        auditOfApp(value),
        sql`${adminAudit.target} IN (SELECT value FROM json_each(${value("targets")}))`,
        startsWith(value),
      ),
    )
    .orderBy(desc(adminAudit.seq))
    .limit(SEARCHED_AUDIT_ENTRIES_MAX),
);

/** Returns the entries on some targets, newest first: at most `SEARCHED_AUDIT_ENTRIES_MAX`. */
export async function listAuditOfTarget(
  root: Pick<SystemCtx, "db" | "rights">,
  appId: string,
  targets: readonly string[],
  action = "",
): Promise<readonly AuditEntry[]> {
  if (targets.length === 0) return [];
  return (await all(root.db, selectAuditOf({ appId, targets: JSON.stringify(targets), action }))).map((row) =>
    presentAuditEntry(root, row),
  );
}

const selectGrantEntry = query((value: ValueOf<{ appId: string; packId: string; balanceId: string }>) =>
  drizzle
    .select(auditFields())
    .from(selectNewestEntries(sql`${ofTarget} WHERE ${and(auditOfApp(value), eq(adminAudit.target, value("packId")))}`))
    .leftJoin(accounts, isAuditedUser)
    .where(sql`${adminAudit.action} = 'credits.granted' AND instr(${adminAudit.details}, ${value("balanceId")}) > 0`)
    .limit(1),
);

/**
 * Returns the entry of an administrator's grant of a balance. Searches only the pack's newest entries. Null if a key granted the
 * balance, or the entry is older.
 */
export async function findGrantEntry(
  root: Pick<SystemCtx, "db" | "rights">,
  appId: string,
  balance: { readonly packId: string; readonly balanceId: string },
): Promise<AuditEntry | null> {
  const { packId, balanceId } = balance;
  const [row] = await all(root.db, selectGrantEntry({ appId, packId, balanceId: `"${balanceId}"` }));
  return row === undefined ? null : presentAuditEntry(root, row);
}

import { fragment, type Statement, statement } from "../db/sql.ts";
import type { Mode } from "../runtime.ts";

/** The person of an audit row. */
export interface Subject {
  readonly appId: string;
  readonly mode: Mode;
  readonly distinctId: string;
}

export interface AuditRow {
  /** Created before the write, so that a repeated write takes effect once. */
  readonly id: string;
  readonly action: "minted" | "opened" | "completed" | "failed";
  /** SHA-256 of the token; never the token itself. */
  readonly tokenHash: string;
  /** The key that created the link. Null for actions of the link's holder. */
  readonly keyId: string | null;
  readonly occurredAtMs: number;
}

/** How many of the newest rows a repeated write searches for its own. Far fewer rows are written between two attempts. */
const NEWEST = 50;

const newestOfSubject = fragment`
  FROM export_audit WHERE environment_id = e.id AND distinct_id = :distinctId ORDER BY seq DESC LIMIT`;

const appendRow = statement<{
  appId: string;
  mode: string;
  distinctId: string;
  id: string;
  action: string;
  tokenHash: string;
  keyId: string | null;
  occurredAtMs: number;
}>`
  INSERT INTO export_audit (environment_id, distinct_id, seq, id, action, token_hash, key_id, occurred_at_ms)
  SELECT e.id, :distinctId, 1 + coalesce((SELECT seq ${newestOfSubject} 1), 0), :id, :action, :tokenHash, :keyId,
    CAST(:occurredAtMs AS INTEGER)
  FROM environments AS e
  WHERE e.app_id = :appId AND e.mode = :mode AND :id NOT IN (SELECT id ${newestOfSubject} ${`${NEWEST}`})`;

/**
 * Appends a row to the audit of exports (P13). It writes nothing if the application does not exist, or if the row is already
 * there.
 */
export function insertAuditRow({ appId, mode, distinctId }: Subject, row: AuditRow): Statement<never> {
  return appendRow({ ...row, appId, mode, distinctId });
}

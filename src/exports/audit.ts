import { fragment, type Statement, statement } from "../db/sql.ts";
import type { Mode } from "../runtime.ts";

/** Whom an audit row is about. */
export interface Subject {
  readonly appId: string;
  readonly mode: Mode;
  readonly distinctId: string;
}

export interface AuditRow {
  /** Made before the write, so that a write sent twice lands once. */
  readonly id: string;
  readonly action: "minted" | "opened" | "completed" | "failed";
  /** SHA-256 of the token; never the token. */
  readonly tokenHash: string;
  /** The key that minted; null for what the link's holder did. */
  readonly keyId: string | null;
  readonly occurredAtMs: number;
}

/** How many of the newest rows a repeated write looks for itself among: far more than land between two tries of one. */
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
 * One statement that appends a row to the audit of exports (P13). An application that is not there gets none, and a row
 * that landed already is not written again.
 */
export function insertAuditRow({ appId, mode, distinctId }: Subject, row: AuditRow): Statement<never> {
  return appendRow({ ...row, appId, mode, distinctId });
}

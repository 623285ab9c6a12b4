import type { Steps } from "../db/schema.ts";
import { fragment, type Statement, statement } from "../db/sql.ts";
import { readLegs, settleHolds } from "../ledger/hold.ts";
import { insertTakings } from "../ledger/insert-entries.ts";
import type { TenantCtx } from "../runtime.ts";
import { type ErasureSecret, hashName } from "../tombstones/secret.ts";
import type { ErasureKey } from "./ids.ts";
import { isPlainSql, openIds } from "./page.ts";

const ACCOUNTS = "10";
const HOLDS_MAX = 50;
const BALANCES = "500";
const REFERENCES = "500";

interface BooksRow {
  readonly accountId: number;
  readonly userId: string;
  /** JSON: open reservations, as [id, legs], and balances that are not revoked. */
  readonly holds: string;
  readonly balances: string;
}

/** Accounts with credits that are not revoked, or open reservations. */
export const selectOpenBooks = statement<ErasureKey, BooksRow>`
  SELECT * FROM (
    SELECT i.account_id AS accountId, i.pseudonym AS userId, (
      SELECT json_group_array(json_array(id, legs)) FROM (
        SELECT id, legs FROM reservations WHERE account_id = i.account_id AND state = 'open' LIMIT ${`${HOLDS_MAX}`}
      )
    ) AS holds, (
      SELECT json_group_array(id) FROM (
        SELECT id FROM credit_balances WHERE account_id = i.account_id AND revoked_at_ms IS NULL LIMIT ${BALANCES}
      )
    ) AS balances
    FROM ${openIds} AS i
  ) WHERE holds <> '[]' OR balances <> '[]' LIMIT ${ACCOUNTS}`;

/** Aborts the batch with `guard_balance` when another page revoked one of these balances. */
const guardNotRevoked = statement<{ balanceIds: string }>`
  INSERT INTO guards (name, holds) SELECT 'balance', NOT EXISTS (
    SELECT 1 FROM json_each(:balanceIds) AS j CROSS JOIN credit_balances AS b ON b.id = j.value
    WHERE b.revoked_at_ms IS NOT NULL
  )`;

/** Releases what open reservations hold, also of those that would be charged, then revokes what remains. */
export function closeBooks(ctx: TenantCtx, rows: readonly BooksRow[]): Statement[] {
  return rows.flatMap(({ accountId, userId, holds, balances }) => {
    const writing = { environmentId: ctx.environment.id, userId, accountId, nowMs: ctx.now() };
    // `selectOpenBooks` wrote this JSON.
    const open = (JSON.parse(holds) as [string, string][]).map(([id, legs]) => ({ id, legs: readLegs(legs) }));
    const balanceIds = JSON.parse(balances) as string[];
    const released = settleHolds(writing, open, { state: "released" });
    if (open.length === HOLDS_MAX || balanceIds.length === 0) return released;
    const takings = balanceIds.map((balanceId) => ({ balanceId, dueSteps: 0 as Steps, revokes: true }));
    return [...released, guardNotRevoked({ balanceIds: balances }), insertTakings(writing, takings, null)];
  });
}

interface ReferenceRow {
  readonly accountId: number;
  readonly reference: string;
}

const referencesOf = (column: string, table: string) => fragment`
    SELECT i.account_id AS accountId, r.${column} AS reference
    FROM ${openIds} AS i CROSS JOIN ${table} AS r ON r.account_id = i.account_id
    WHERE r.${column} IS NOT NULL AND ${isPlainSql(`r.${column}`)}`;

/** References that callers gave, and that have no hash yet. */
export const selectReferences = statement<ErasureKey, ReferenceRow>`
  SELECT * FROM (
    ${referencesOf("external_ref", "credit_balances")} UNION ${referencesOf("external_ref", "credit_refunds")}
    UNION ${referencesOf("refund_ref", "credit_refunds")}
  ) LIMIT ${REFERENCES}`;

const insertNames = statement<{ rows: string }>`
  INSERT INTO erasure_names (account_id, kind, old_name, new_name)
  SELECT n.value ->> 0, 'reference', n.value ->> 1, n.value ->> 2 FROM json_each(:rows) AS n
  WHERE EXISTS (SELECT 1 FROM erasure_ids WHERE account_id = n.value ->> 0 AND is_done = 0) AND NOT EXISTS (
    SELECT 1 FROM erasure_names WHERE account_id = n.value ->> 0 AND kind = 'reference' AND old_name = n.value ->> 1
  )`;

const nameOf = (table: string, column: string) => fragment`(
    SELECT new_name FROM erasure_names
    WHERE account_id = ${table}.account_id AND kind = 'reference' AND old_name = ${table}.${column}
  )`;

const eraseReferences = statement<{ rows: string }>`
  UPDATE credit_balances SET notes = NULL, external_ref = ${nameOf("credit_balances", "external_ref")}
  WHERE (account_id, external_ref) IN (
    SELECT account_id, old_name FROM json_each(:rows) AS n CROSS JOIN erasure_names
    WHERE account_id = n.value ->> 0 AND kind = 'reference' AND old_name = n.value ->> 1
  )`;
const eraseRefunds = statement<{ rows: string }>`
  UPDATE credit_refunds SET request_hash = '', external_ref = ${nameOf("credit_refunds", "external_ref")},
    refund_ref = ${nameOf("credit_refunds", "refund_ref")}
  WHERE account_id IN (SELECT n.value ->> 0 FROM json_each(:rows) AS n) AND request_hash <> ''
    AND ${nameOf("credit_refunds", "external_ref")} IS NOT NULL AND ${nameOf("credit_refunds", "refund_ref")} IS NOT NULL`;

/** Puts keyed hashes in place of references, by which a voucher still finds its booking (E2). */
export async function hashReferences(
  ctx: TenantCtx,
  secret: ErasureSecret,
  rows: readonly ReferenceRow[],
): Promise<Statement[]> {
  if (rows.length === 0) return [];
  const names: (string | number)[][] = [];
  for (const { accountId, reference } of rows) {
    names.push([accountId, reference, await hashName(secret, ctx.environment, "reference", reference)]);
  }
  const values = { rows: JSON.stringify(names) };
  return [insertNames(values), eraseReferences(values), eraseRefunds(values)];
}

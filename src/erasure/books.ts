import { readLegs, settleHolds } from "../books/ledger/hold.ts";
import { insertTakings } from "../books/ledger/insert-entries.ts";
import type { Steps } from "../db/schema.ts";
import { fragment, type Statement, statement } from "../db/sql.ts";
import { type ErasureSecret, hashName } from "../db/tombstones/secret.ts";
import type { TenantCtx } from "../runtime.ts";
import { openIds, type Page, rowsSql } from "./ids-of-page.ts";
import { isGiven, namesOf, newName } from "./page-of-books.ts";

const ACCOUNTS = "10";
const HOLDS_MAX = 200;
const BALANCES_MAX = 500;
const REFERENCES_MAX = 500;
const atMost = (max: number): string => `min(${rowsSql}, ${max})`;

interface BooksRow {
  readonly accountId: number;
  readonly userId: string;
  /** JSON: open reservations, as [id, legs], and balances that are not revoked. */
  readonly holds: string;
  readonly balances: string;
}

/** Accounts with credits that are not revoked, or open reservations. */
export const selectOpenBooks = statement<Page, BooksRow>`
  SELECT * FROM (
    SELECT i.account_id AS accountId, i.pseudonym AS userId, (
      SELECT json_group_array(json_array(id, legs)) FROM (
        SELECT id, legs FROM reservations WHERE account_id = i.account_id AND state = 'open' LIMIT ${atMost(HOLDS_MAX)}
      )
    ) AS holds, (
      SELECT json_group_array(id) FROM (
        SELECT id FROM credit_balances WHERE account_id = i.account_id AND revoked_at_ms IS NULL LIMIT ${atMost(BALANCES_MAX)}
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

/** All that the holds return is revoked, so that nothing is owed any more (E2). */
const endOwed = statement<{ accountId: number }>`DELETE FROM refund_owed WHERE account_id = :accountId`;

/** Releases what open reservations hold, also of those that would be charged. Revokes what remains when none is open. */
export function closeBooks(ctx: TenantCtx, rows: readonly BooksRow[]): Statement[] {
  return rows.flatMap(({ accountId, userId, holds, balances }) => {
    const writing = { environmentId: ctx.environment.id, userId, accountId, nowMs: ctx.now() };
    // `selectOpenBooks` wrote this JSON.
    const open = (JSON.parse(holds) as [string, string][]).map(([id, legs]) => ({ id, legs: readLegs(legs) }));
    if (open.length > 0) return [endOwed({ accountId }), ...settleHolds(writing, open, { state: "released" })];
    const balanceIds = JSON.parse(balances) as string[];
    const takings = balanceIds.map((balanceId) => ({ balanceId, dueSteps: 0 as Steps, revokes: true }));
    return [guardNotRevoked({ balanceIds: balances }), insertTakings(writing, takings, null)];
  });
}

interface ReferenceRow {
  readonly accountId: number;
  readonly reference: string;
}

const named = (table: string, column: string) =>
  fragment`EXISTS (SELECT 1 ${namesOf(`${table}.account_id`, "reference", `${table}.${column}`)})`;

const referencesOf = (table: string, column: string, when: string) => fragment`
    SELECT r.account_id AS accountId, r.${column} AS reference
    FROM ${openIds} AS i CROSS JOIN ${table} AS r ON r.account_id = i.account_id WHERE ${when}`;
const ofRefunds = (column: string) =>
  referencesOf("credit_refunds", column, `r.request_hash <> '' AND NOT ${named("r", column)}`);

/** References that callers gave, and that have no hash yet. */
export const selectReferences = statement<Page, ReferenceRow>`
  SELECT * FROM (
    ${referencesOf("credit_balances", "external_ref", isGiven)} UNION ${ofRefunds("external_ref")} UNION ${ofRefunds("refund_ref")}
  ) LIMIT ${atMost(REFERENCES_MAX)}`;

const insertNames = statement<{ rows: string }>`
  INSERT INTO erasure_names (account_id, kind, old_name, new_name)
  SELECT n.value ->> 0, 'reference', n.value ->> 1, n.value ->> 2 FROM json_each(:rows) AS n
  WHERE EXISTS (SELECT 1 FROM erasure_ids WHERE account_id = n.value ->> 0 AND is_done = 0) AND NOT EXISTS (
    SELECT 1 FROM erasure_names WHERE account_id = n.value ->> 0 AND kind = 'reference' AND old_name = n.value ->> 1
  )`;

const ofReference = (table: string, column: string) => newName(table, column, "reference");

const eraseReferences = statement<{ rows: string }>`
  UPDATE credit_balances SET notes = NULL, ${ofReference("credit_balances", "external_ref")}
  WHERE (account_id, external_ref) IN (
    SELECT account_id, old_name FROM json_each(:rows) AS n CROSS JOIN erasure_names
    WHERE account_id = n.value ->> 0 AND kind = 'reference' AND old_name = n.value ->> 1
  )`;
const eraseRefunds = statement<{ rows: string }>`
  UPDATE credit_refunds SET request_hash = '', ${ofReference("credit_refunds", "external_ref")},
    ${ofReference("credit_refunds", "refund_ref")}
  WHERE account_id IN (SELECT n.value ->> 0 FROM json_each(:rows) AS n) AND request_hash <> ''
    AND ${named("credit_refunds", "external_ref")} AND ${named("credit_refunds", "refund_ref")}`;

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

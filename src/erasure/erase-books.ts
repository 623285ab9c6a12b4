import { eq, type SQL, sql } from "drizzle-orm";
import { alias, type SQLiteColumn } from "drizzle-orm/sqlite-core";
import { readActor } from "../books/ledger/account.ts";
import { LEGS_MAX } from "../books/ledger/burn-down.ts";
import { isOpen, readLegs, settlementFields } from "../books/ledger/hold.ts";
import { guardNoneRevoked, insertClawbacks } from "../books/ledger/insert-clawbacks.ts";
import { settleHold } from "../books/ledger/settle.ts";
import { writesOfSettlements } from "../books/ledger/settlement-writes.ts";
import { legsField } from "../books/ledger/stored-legs.ts";
import { computed, drizzle, fields, hasRow, insertFrom, names, query, read, type ValueOf } from "../db/query.ts";
import {
  creditBalances,
  creditRefunds,
  erasureIds,
  erasureNames,
  type Minor,
  refundOwed,
  reservations,
} from "../db/schema.ts";
import type { RowsOf, Statement } from "../db/sql.ts";
import { type ErasureSecret, hashName } from "../db/tombstones.ts";
import type { TenantCtx } from "../runtime.ts";
import { erasureNamesOf, isSentReference, newName } from "./page-of-books.ts";
import { type ErasurePage, id, idsWithOpenAccounts, ofRow, rowsMax } from "./page-rows.ts";

const ACCOUNTS_MAX = 10;
const HOLDS_MAX = 200;
const ERASED_BALANCES_MAX = 500;
const REFERENCES_MAX = 500;
const atMost = (value: ValueOf<ErasurePage>, max: number) => sql`min(${rowsMax(value)}, ${max})`;

/**
 * Accounts with open reservations or with credits that are not revoked. The lists are JSON, so that each account has its own
 * limits.
 */
export const selectOpenAccounts = query((value: ValueOf<ErasurePage>) => {
  const hasHold = hasRow(reservations, sql`${reservations.accountId} = ${id.accountId} AND ${isOpen()}`);
  const balances = sql`(
    SELECT json_group_array(${creditBalances.id}) FROM (
      SELECT ${creditBalances.id} FROM ${creditBalances}
      WHERE ${creditBalances.accountId} = ${id.accountId} AND ${creditBalances.revokedAtMs} IS NULL
      LIMIT ${atMost(value, ERASED_BALANCES_MAX)}
    ) AS ${creditBalances}
  )`;
  const selected = {
    ...fields(id, { userId: "pseudonym" }),
    ...computed({
      accountId: sql<number>`${id.accountId}`,
      hasHold: sql<0 | 1>`i.open`,
      balanceIds: sql<string>`i.balances`,
    }),
  };
  return read(
    selected,
    (list) => sql`
      SELECT ${list} FROM (SELECT ${id}.*, ${hasHold} AS open, ${balances} AS balances FROM ${idsWithOpenAccounts(value)}) AS ${id}
      WHERE i.open OR i.balances <> '[]' LIMIT ${ACCOUNTS_MAX}`,
  );
});
type OpenAccounts = RowsOf<[ReturnType<typeof selectOpenAccounts>]>[0];

const numbered = alias(reservations, "numbered");

/** Open reservations of these accounts: as many as fit into a batch, and at least one. */
export const selectErasedHolds = query((value: ValueOf<ErasurePage>) => {
  const { accountId, reservationNumber, legCount } = reservations;
  const order = sql`(ORDER BY ${accountId}, ${reservationNumber})`;
  const open = sql`SELECT ${accountId}, ${reservationNumber}, sum(${legCount}) OVER ${order} - ${legCount} AS earlier
    FROM ${idsWithOpenAccounts(value)} CROSS JOIN ${reservations} ON ${accountId} = ${id.accountId} AND ${isOpen()} ORDER BY 1, 2`;
  return read(
    { ...fields(reservations, "accountId", "id", "reservationNumber"), ...legsField(), ...settlementFields() },
    (list) => sql`SELECT ${list} FROM (${open}) AS ${numbered} CROSS JOIN ${reservations}
      ON ${accountId} = ${numbered.accountId} AND ${reservationNumber} = ${numbered.reservationNumber}
      WHERE earlier < ${LEGS_MAX} LIMIT ${atMost(value, HOLDS_MAX)}`,
  );
});
type ErasedHolds = RowsOf<[ReturnType<typeof selectErasedHolds>]>[0];

/** Deletes owed amounts, because everything that the holds return is revoked (E2). */
const deleteOwed = query((value: ValueOf<{ accountId: number }>) =>
  drizzle.delete(refundOwed).where(eq(refundOwed.accountId, value("accountId"))),
);

/**
 * Returns statements that close accounts. They first release all open reservations, even those that would be charged on
 * expiry. When an account has none, they revoke its remaining credits.
 */
export function closeBooks(ctx: TenantCtx, books: OpenAccounts, open: ErasedHolds): Statement[] {
  return books.flatMap(({ accountId, userId, hasHold, balanceIds }) => {
    const settlement = { environmentId: ctx.environment.id, userId, accountId, nowMs: ctx.now(), by: readActor(ctx) };
    if (hasHold === 1) {
      const rows = open.filter((row) => row.accountId === accountId);
      const settled = rows.map(({ id, reservationNumber, legs, revocations }) =>
        settleHold({ id, reservationNumber, legs: readLegs(legs), owed: [], revocations }, { state: "released" }),
      );
      const { before, after } = writesOfSettlements(settlement, settled);
      return rows.length === 0 ? [] : [deleteOwed({ accountId }), ...before, ...after];
    }
    const clawbacks = (JSON.parse(balanceIds) as string[]).map((balanceId) => ({
      balanceId,
      dueMinor: 0 as Minor,
      revokes: true,
    }));
    return [
      guardNoneRevoked({ balanceIds }),
      ...insertClawbacks(settlement, clawbacks, { kind: "erasure", note: null }),
    ];
  });
}

type TableWithReference = typeof creditBalances | typeof creditRefunds;
const hasReferenceName = (account: SQL | SQLiteColumn, reference: SQL | SQLiteColumn) =>
  sql`EXISTS (SELECT 1 ${erasureNamesOf(account, "reference", reference)})`;

/** Selects the references that callers sent and that are not hashed yet. */
export const selectReferences = query((value: ValueOf<ErasurePage>) => {
  const found = alias(erasureNames, "found");
  const referencesOf = (table: TableWithReference, column: SQLiteColumn, when: SQL) => sql`
    SELECT ${ofRow(table.accountId)} AS ${names(found.accountId)}, ${ofRow(column)} AS ${names(found.oldName)}
    FROM ${idsWithOpenAccounts(value)} CROSS JOIN ${table} AS r ON ${ofRow(table.accountId)} = ${id.accountId} WHERE ${when}`;
  const { accountId, externalRef, refundRef, requestHash } = creditRefunds;
  const ofRefunds = (column: SQLiteColumn) => {
    const isOpen = sql`${ofRow(requestHash)} <> '' AND NOT ${hasReferenceName(ofRow(accountId), ofRow(column))}`;
    return referencesOf(creditRefunds, column, isOpen);
  };
  return read(
    { ...fields(found, "accountId"), ...fields(found, { reference: "oldName" }) },
    (list) => sql`SELECT ${list} FROM (
      ${referencesOf(creditBalances, creditBalances.externalRef, isSentReference())}
      UNION ${ofRefunds(externalRef)} UNION ${ofRefunds(refundRef)}
    ) AS ${found} LIMIT ${atMost(value, REFERENCES_MAX)}`,
  );
});
type References = RowsOf<[ReturnType<typeof selectReferences>]>[0];

/** `rows` is a JSON list of [account, reference, hash]. */
type ReferenceHashes = { rows: string };

const insertReferenceNames = query((value: ValueOf<ReferenceHashes>) => {
  const [accountId, oldName] = [sql`item.value ->> 0`, sql`item.value ->> 1`];
  const isErasing = sql`EXISTS (
    SELECT 1 FROM ${erasureIds} WHERE ${erasureIds.accountId} = ${accountId} AND ${erasureIds.isDone} = 0
  )`;
  return insertFrom(
    erasureNames,
    { accountId, kind: sql`'reference'`, oldName, newName: sql`item.value ->> 2` },
    sql`FROM json_each(${value("rows")}) AS item
      WHERE ${isErasing} AND NOT ${hasReferenceName(accountId, oldName)}`,
  );
});

const eraseReferences = query((value: ValueOf<ReferenceHashes>) => {
  const { accountId, externalRef } = creditBalances;
  const { oldName } = erasureNames;
  return drizzle
    .update(creditBalances)
    .set({ notes: null, externalRef: newName(creditBalances, externalRef, "reference") })
    .where(
      sql`(${accountId}, ${externalRef}) IN (
        SELECT ${erasureNames.accountId}, ${oldName} FROM json_each(${value("rows")}) AS item CROSS JOIN ${erasureNames}
        WHERE ${erasureNames.accountId} = item.value ->> 0 AND ${erasureNames.kind} = 'reference' AND ${oldName} = item.value ->> 1
      )`,
    );
});
const eraseRefunds = query((value: ValueOf<ReferenceHashes>) => {
  const { accountId, externalRef, refundRef, requestHash } = creditRefunds;
  return drizzle
    .update(creditRefunds)
    .set({
      requestHash: "",
      externalRef: newName(creditRefunds, externalRef, "reference"),
      refundRef: newName(creditRefunds, refundRef, "reference"),
    })
    .where(
      sql`${accountId} IN (SELECT item.value ->> 0 FROM json_each(${value("rows")}) AS item) AND ${requestHash} <> ''
        AND ${hasReferenceName(accountId, externalRef)} AND ${hasReferenceName(accountId, refundRef)}`,
    );
});

/**
 * Returns statements that replace references by keyed hashes, so that the entry of a known reference can still be found (E2).
 */
export async function hashReferences(
  ctx: TenantCtx,
  secret: ErasureSecret,
  references: References,
): Promise<Statement[]> {
  if (references.length === 0) return [];
  const names: (string | number)[][] = [];
  for (const { accountId, reference } of references) {
    names.push([accountId, reference, await hashName(secret, ctx.environment, "reference", reference)]);
  }
  const values = { rows: JSON.stringify(names) };
  return [insertReferenceNames(values), eraseReferences(values), eraseRefunds(values)];
}

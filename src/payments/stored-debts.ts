import { accountSql, type WriteContext, writingValues } from "../books/ledger/account.ts";
import { type Statement, statement } from "../db/sql.ts";
import type { StoredDebt } from "./line.ts";
import type { AccountPlan } from "./plan.ts";

interface DebtRow extends Omit<StoredDebt, "payers"> {
  readonly payersJson: string;
}

const paymentsSql = `
    SELECT p.environment_id, p.id, p.lines FROM payment_names AS n
    CROSS JOIN payments AS p ON p.environment_id = n.environment_id AND p.id = n.payment_id
    WHERE n.environment_id = :environmentId AND n.name IN (SELECT value FROM json_each(:names))`;

/**
 * The debts that an event may change: those of the users of the payments that have some of these names, of the customer,
 * and of the user to whom it may grant.
 */
export const selectDebts = statement<
  { environmentId: number; names: string; customer: string; userId: string },
  DebtRow
>`
  SELECT d.id AS id, d.account_id AS accountId, d.customer AS customer, d.currency AS currency, d.amount AS amount,
    d.since_ms AS sinceMs, (
      SELECT json_group_array(json_object('line', line, 'amount', amount, 'atMs', at_ms)) FROM payment_debt_payers
      WHERE environment_id = d.environment_id AND debt_id = d.id
    ) AS payersJson
  FROM (
    SELECT o.id AS id FROM (${paymentsSql} AND p.lines <> '[]') AS p
    CROSS JOIN payment_grants AS g ON g.environment_id = p.environment_id AND g.payment_id = p.id
    CROSS JOIN payment_debts AS o INDEXED BY payment_debts_of ON o.environment_id = g.environment_id AND o.account_id = g.account_id
    UNION SELECT id FROM payment_debts INDEXED BY payment_debts_customer
    WHERE environment_id = :environmentId AND customer = :customer AND :customer <> ''
    UNION SELECT id FROM payment_debts INDEXED BY payment_debts_of WHERE environment_id = :environmentId AND account_id = (
      SELECT id FROM accounts WHERE environment_id = :environmentId AND user_id = :userId
    ) AND :userId <> ''
  ) AS found CROSS JOIN payment_debts AS d ON d.environment_id = :environmentId AND d.id = found.id`;

export function readDebt({ payersJson, ...row }: DebtRow): StoredDebt {
  // SQLite made this list of what Purser wrote.
  return { ...row, payers: JSON.parse(payersJson) as StoredDebt["payers"] };
}

type Values = WriteContext & { rows: string };

/** Aborts the batch with `guard_payment` where a debt, or what remains of a balance, is not what the plan was made on. */
const guardDebts = statement<Values>`
  INSERT INTO guards (name, holds) SELECT 'payment', count(*) = json_array_length(:rows)
  FROM json_each(:rows) AS known CROSS JOIN payment_debts AS d
  ON d.environment_id = :environmentId AND d.id = known.value ->> 'id' AND d.amount = known.value ->> 'before'`;
const guardRemaining = statement<Values>`
  INSERT INTO guards (name, holds) SELECT 'payment', count(*) = json_array_length(:rows)
  FROM json_each(:rows) AS known CROSS JOIN credit_balances AS b
  ON b.account_id = ${accountSql} AND b.id = known.value ->> 'balanceId'
    AND b.remaining_steps = known.value ->> 'remainingSteps'`;

const insertDebts = statement<Values>`
  INSERT INTO payment_debts (environment_id, id, account_id, customer, currency, amount, since_ms)
  SELECT CAST(:environmentId AS INTEGER), value ->> 'id', ${accountSql}, value ->> 'customer', value ->> 'currency',
    value ->> 'amount', value ->> 'sinceMs'
  FROM json_each(:rows)`;
const updateDebts = statement<Values>`
  UPDATE payment_debts SET amount = known.value ->> 'amount', since_ms = known.value ->> 'sinceMs'
  FROM json_each(:rows) AS known
  WHERE payment_debts.environment_id = :environmentId AND payment_debts.id = known.value ->> 'id'`;
const upsertPayers = statement<Values>`
  INSERT INTO payment_debt_payers (environment_id, debt_id, line, amount, at_ms)
  SELECT CAST(:environmentId AS INTEGER), value ->> 'debt', value ->> 'line', value ->> 'amount', value ->> 'atMs'
  FROM json_each(:rows) WHERE 1
  ON CONFLICT (environment_id, debt_id, line) DO UPDATE SET amount = excluded.amount`;

/** The statements of a plan's debts, and what must hold for them. They come before its motions. */
export function storeDebts(writing: WriteContext, { debts, payers, judged }: AccountPlan): Statement[] {
  const send = (statementOf: (values: Values) => Statement, rows: readonly object[]): Statement[] =>
    rows.length === 0 ? [] : [statementOf({ ...writingValues(writing), rows: JSON.stringify(rows) })];
  const known = debts.filter(({ before }) => before !== null);
  return [
    ...send(guardRemaining, judged),
    ...send(guardDebts, known),
    ...send(
      insertDebts,
      debts.filter(({ before }) => before === null),
    ),
    ...send(updateDebts, known),
    ...send(upsertPayers, payers),
  ];
}

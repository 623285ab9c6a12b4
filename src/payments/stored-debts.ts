import { and, eq, sql } from "drizzle-orm";
import { accountOfWrite, type WriteContext, writingValues } from "../books/ledger/account.ts";
import {
  asInteger,
  assignments,
  computed,
  drizzle,
  fields,
  insertFrom,
  names,
  query,
  type RowOf,
  type ValueOf,
} from "../db/query.ts";
import {
  accounts,
  creditBalances,
  paymentDebtPayers,
  paymentDebts,
  paymentGrants,
  paymentNames,
  payments,
} from "../db/schema.ts";
import type { Statement } from "../db/sql.ts";
import { guards } from "../db/views.ts";
import type { StoredDebt } from "./line.ts";
import type { AccountPlan } from "./plan.ts";

const payers = sql<string>`(
  SELECT json_group_array(json_object(
    'line', ${paymentDebtPayers.line}, 'amount', ${paymentDebtPayers.amount}, 'atMs', ${paymentDebtPayers.atMs}
  )) FROM ${paymentDebtPayers}
  WHERE ${paymentDebtPayers.environmentId} = ${paymentDebts.environmentId}
  AND ${paymentDebtPayers.debtId} = ${paymentDebts.id}
)`;
const debtFields = {
  ...fields(paymentDebts, "id", "accountId", "customer", "currency", "amount", "sinceMs"),
  ...computed({ payersJson: payers }),
};

type DebtSearch = { environmentId: number; names: string; customer: string; userId: string };

/** Returns SQL for one row if the environment has any debt. Most environments have none, and then no other rows are read. */
const anyDebt = (value: ValueOf<DebtSearch>) => sql`(
  SELECT 1 FROM ${paymentDebts} WHERE ${paymentDebts.environmentId} = ${value("environmentId")} LIMIT 1
) AS some`;

/** Selects the debts of users with grants for lines of the payments with these names. */
const ofNames = (value: ValueOf<DebtSearch>) => sql`SELECT ${paymentDebts.id} AS debt FROM ${anyDebt(value)}
  CROSS JOIN ${paymentDebts} INDEXED BY payment_debts_of
  WHERE ${paymentDebts.environmentId} = ${value("environmentId")} AND ${paymentDebts.accountId} IN (
    SELECT ${paymentGrants.accountId} FROM ${paymentNames}
    CROSS JOIN ${payments} ON ${payments.environmentId} = ${paymentNames.environmentId}
    AND ${payments.id} = ${paymentNames.paymentId}
    CROSS JOIN ${paymentGrants} ON ${paymentGrants.environmentId} = ${payments.environmentId}
    AND ${paymentGrants.paymentId} = ${payments.id}
    WHERE ${paymentNames.environmentId} = ${value("environmentId")} AND ${payments.lines} <> '[]'
    AND ${paymentNames.name} IN (SELECT value FROM json_each(${value("names")}))
  )`;

const ofCustomer = (value: ValueOf<DebtSearch>) => sql`SELECT ${paymentDebts.id}
  FROM ${paymentDebts} INDEXED BY payment_debts_customer
  WHERE ${paymentDebts.environmentId} = ${value("environmentId")} AND ${paymentDebts.customer} = ${value("customer")}
  AND ${value("customer")} <> ''`;

const debtsOfUser = (value: ValueOf<DebtSearch>) => sql`SELECT ${paymentDebts.id}
  FROM ${paymentDebts} INDEXED BY payment_debts_of
  WHERE ${paymentDebts.environmentId} = ${value("environmentId")} AND ${value("userId")} <> ''
  AND ${paymentDebts.accountId} = (
    SELECT ${accounts.id} FROM ${accounts}
    WHERE ${accounts.environmentId} = ${value("environmentId")} AND ${accounts.userId} = ${value("userId")}
  )`;

/**
 * Selects the debts that an event may change: those of the users of the payments with some of these names, of the customer, and of the
 * user to whom the event may grant.
 */
export const selectDebts = query((value: ValueOf<DebtSearch>) =>
  drizzle
    .select(debtFields)
    .from(sql`(${ofNames(value)} UNION ${ofCustomer(value)} UNION ${debtsOfUser(value)}) AS found`)
    .crossJoin(paymentDebts)
    .where(and(eq(paymentDebts.environmentId, value("environmentId")), sql`${paymentDebts.id} = found.debt`)),
);

export function readDebt({ payersJson, ...row }: RowOf<typeof debtFields>): StoredDebt {
  // SQLite built this JSON from values that Purser wrote.
  return { ...row, payers: JSON.parse(payersJson) as StoredDebt["payers"] };
}

type DebtValues = WriteContext & { rows: string };

/** Aborts the batch with `guard_payment` if a debt or a balance differs from the state on which the plan relies. */
const guardDebts = query((value: ValueOf<DebtValues>) =>
  insertFrom(
    guards,
    { name: sql`'payment'`, holds: sql`count(${paymentDebts.id}) = count(*)` },
    sql`FROM json_each(${value("rows")}) AS known LEFT JOIN ${paymentDebts}
      ON ${paymentDebts.environmentId} = ${value("environmentId")} AND ${paymentDebts.id} = known.value ->> 'id'
      AND ${paymentDebts.amount} = known.value ->> 'before'`,
  ),
);
const guardRemaining = query((value: ValueOf<DebtValues>) =>
  insertFrom(
    guards,
    { name: sql`'payment'`, holds: sql`count(${creditBalances.id}) = count(*)` },
    sql`FROM json_each(${value("rows")}) AS known LEFT JOIN ${creditBalances}
      ON +${creditBalances.accountId} = ${accountOfWrite(value)} AND ${creditBalances.id} = known.value ->> 'balanceId'
      AND ${creditBalances.remainingSteps} = known.value ->> 'remainingSteps'`,
  ),
);

const insertDebts = query((value: ValueOf<DebtValues>) =>
  insertFrom(
    paymentDebts,
    {
      environmentId: asInteger(value("environmentId")),
      id: sql`debt.value ->> 'id'`,
      accountId: accountOfWrite(value),
      customer: sql`debt.value ->> 'customer'`,
      currency: sql`debt.value ->> 'currency'`,
      amount: sql`debt.value ->> 'amount'`,
      sinceMs: sql`debt.value ->> 'sinceMs'`,
    },
    sql`FROM json_each(${value("rows")}) AS debt`,
  ),
);
// Because of the IN, SQLite finds each debt by its key. A join with the list would read all debts of the environment.
const updateDebts = query((value: ValueOf<DebtValues>) => {
  const { environmentId, id } = paymentDebts;
  const known = (name: string) =>
    sql`(SELECT known.value ->> ${name} FROM json_each(${value("rows")}) AS known WHERE known.value ->> 'id' = ${id})`;
  return drizzle
    .update(paymentDebts)
    .set({ amount: known("amount"), sinceMs: known("sinceMs") })
    .where(
      and(
        eq(environmentId, value("environmentId")),
        sql`${id} IN (SELECT known.value ->> 'id' FROM json_each(${value("rows")}) AS known)`,
      ),
    );
});
const upsertPayers = query((value: ValueOf<DebtValues>) => {
  const { environmentId, debtId, line, amount } = paymentDebtPayers;
  const insert = insertFrom(
    paymentDebtPayers,
    {
      environmentId: asInteger(value("environmentId")),
      debtId: sql`payer.value ->> 'debt'`,
      line: sql`payer.value ->> 'line'`,
      amount: sql`payer.value ->> 'amount'`,
      atMs: sql`payer.value ->> 'atMs'`,
    },
    sql`FROM json_each(${value("rows")}) AS payer WHERE 1`,
  );
  const newValues = assignments(paymentDebtPayers, { amount: sql`excluded.${names(amount)}` });
  return sql`${insert} ON CONFLICT (${names(environmentId, debtId, line)}) DO UPDATE SET ${newValues}`;
});

/** Returns the statements that write a plan's debts, with their guards. Send them before the plan's motions. */
export function storeDebts(
  writing: WriteContext,
  { debts, payers: changedPayers, assumedRemaining }: AccountPlan,
): Statement[] {
  const ifAny = (statementOf: (values: DebtValues) => Statement, rows: readonly object[]): Statement[] =>
    rows.length === 0 ? [] : [statementOf({ ...writingValues(writing), rows: JSON.stringify(rows) })];
  const known = debts.filter(({ before }) => before !== null);
  return [
    ...ifAny(guardRemaining, assumedRemaining),
    ...ifAny(guardDebts, known),
    ...ifAny(
      insertDebts,
      debts.filter(({ before }) => before === null),
    ),
    ...ifAny(updateDebts, known),
    ...ifAny(upsertPayers, changedPayers),
  ];
}

import { eq, sql } from "drizzle-orm";
import { inEnvironmentOf, requireEnvironment } from "../catalog/apps.ts";
import { insertAuditEntry, newAuditEntry } from "../catalog/audit.ts";
import { attempt } from "../db/attempt.ts";
import { computed, drizzle, hasRow, query, type ValueOf } from "../db/query.ts";
import { environments, payments, stripeCustomers } from "../db/schema.ts";
import { batch } from "../db/sql.ts";
import { PurserError } from "../errors.ts";
import type { AdminCtx, Mode } from "../runtime.ts";
import { withCarry } from "./carry.ts";
import { payerKeys, readPayer, selectPayer, writePayer } from "./stored-payer.ts";

export interface SetCarryOutput {
  readonly customer: string;
  readonly currency: string;
  readonly amount: number;
}

export interface SetCarryInput {
  readonly mode: Mode;
  readonly customer: string;
  readonly currency: string;
  readonly amount: number;
}

/** Selects whether a session or an invoice has named the customer. */
const selectIsKnown = query((value: ValueOf<{ environmentId: number; customer: string }>) => {
  const isNamedIn = (table: typeof stripeCustomers | typeof payments) =>
    hasRow(table, sql`${table.environmentId} = ${value("environmentId")} AND ${table.customer} = ${value("customer")}`);
  return drizzle
    .select(computed({ isKnown: sql<0 | 1>`(${isNamedIn(stripeCustomers)} OR ${isNamedIn(payments)})` }))
    .from(environments)
    .where(eq(environments.id, value("environmentId")));
});
const auditCarrySet = insertAuditEntry();

/** Sets the carry of a Stripe customer in a currency (S6). Throws `not_found` for a customer that no event has named. */
export async function setCarry(
  admin: AdminCtx,
  appId: string,
  { mode, customer, currency, amount }: SetCarryInput,
): Promise<SetCarryOutput> {
  const environment = await requireEnvironment(admin, appId, mode);
  const environmentId = environment.id;
  const ctx = inEnvironmentOf(admin, environment);
  const keys = await payerKeys(ctx, customer);
  const newId = ctx.newId("payer_");
  return attempt(ctx, async () => {
    const [[row], [found]] = await batch(ctx.db, [
      selectPayer({ environmentId, keys: JSON.stringify(keys) }),
      selectIsKnown({ environmentId, customer }),
    ] as const);
    if (row === undefined && found?.isKnown !== 1) throw unknownCustomer();
    const before = readPayer(row, customer, newId);
    if ((before.carries[currency] ?? 0) !== amount) {
      const after = { ...before, carries: withCarry(before, currency, BigInt(amount)) };
      const details = { mode, currency, amount };
      const entry = newAuditEntry(admin, { appId, action: "payment.carry_set", target: before.id, details });
      await batch(ctx.db, [...writePayer(environmentId, keys, before, after), auditCarrySet(entry)]);
    }
    return { customer, currency, amount };
  });
}

function unknownCustomer(): PurserError {
  const message =
    "No event has named this Stripe customer in this mode. Use the customer's id at Stripe, such as `cus_…`, and the right mode.";
  return new PurserError("not_found", message, { param: "customer" });
}

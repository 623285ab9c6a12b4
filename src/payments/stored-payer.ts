import { and, eq, sql } from "drizzle-orm";
import { drizzle, fields, insertFrom, query, type RowOf, type ValueOf } from "../db/query.ts";
import { payerUsers, stripeCustomers, stripePayers } from "../db/schema.ts";
import type { Statement } from "../db/sql.ts";
import { erasureSecrets, hashCustomer } from "../db/tombstones.ts";
import { guards } from "../db/views.ts";
import type { TenantCtx } from "../runtime.ts";
import { newPayer, type Payer } from "./carry.ts";

/** The keys under which a Stripe customer may be stored: itself, and after an erasure its keyed hash. */
export async function payerKeys(
  { settings, environment }: Pick<TenantCtx, "settings" | "environment">,
  customer: string,
): Promise<readonly string[]> {
  const secrets = settings.erasureSecrets === null ? [] : await erasureSecrets({ settings });
  return [customer, ...(await Promise.all(secrets.map((secret) => hashCustomer(secret, environment, customer))))];
}

type PayerKeys = { environmentId: number; keys: string };
/** Returns a condition: a row is that of the customer with these keys. */
const hasKey = (value: ValueOf<PayerKeys>) =>
  and(
    eq(stripePayers.environmentId, value("environmentId")),
    sql`${stripePayers.customer} IN (SELECT value FROM json_each(${value("keys")}))`,
  );

const payerFields = fields(stripePayers, "customer", "id", "version", "carries", "prices", "trials", "couponUntil");

/** Selects what is stored of a customer. */
export const selectPayer = query((value: ValueOf<PayerKeys>) =>
  drizzle.select(payerFields).from(stripePayers).where(hasKey(value)),
);

export function readPayer(row: RowOf<typeof payerFields> | undefined, customer: string, newId: string): Payer {
  if (row === undefined) return newPayer(customer, newId);
  const { customer: key, id, version, couponUntil } = row;
  // Only `writePayer` writes this JSON.
  const [carries, prices, trials] = [row.carries, row.prices, row.trials].map((text) => JSON.parse(text)) as [
    Payer["carries"],
    string[],
    string[],
  ];
  return { key, id, version, carries, prices, trials, couponUntil };
}

type PayerValues = PayerKeys & {
  id: string;
  version: number;
  key: string;
  carries: string;
  prices: string;
  trials: string;
  couponUntil: number;
};

/** Aborts the batch with `guard_payment` if another write of the customer came first. */
const guardPayer = query((value: ValueOf<PayerKeys & { version: number }>) => {
  const version = sql`coalesce((SELECT max(${stripePayers.version}) FROM ${stripePayers} WHERE ${hasKey(value)}), 0)`;
  return insertFrom(guards, { name: sql`'payment'`, holds: sql`${version} = ${value("version")}` }, sql``);
});

const insertPayer = query((value: ValueOf<PayerValues>) =>
  drizzle.insert(stripePayers).values({
    environmentId: value("environmentId"),
    customer: value("key"),
    id: value("id"),
    version: 1,
    carries: value("carries"),
    prices: value("prices"),
    trials: value("trials"),
    couponUntil: value("couponUntil"),
  }),
);
const updatePayer = query((value: ValueOf<PayerValues>) =>
  drizzle
    .update(stripePayers)
    .set({
      version: sql`${stripePayers.version} + 1`,
      carries: value("carries", stripePayers.carries),
      prices: value("prices", stripePayers.prices),
      trials: value("trials", stripePayers.trials),
      couponUntil: value("couponUntil", stripePayers.couponUntil),
    })
    .where(hasKey(value)),
);

/** Returns the statements that write a customer's changes. They abort the batch if another write came first. */
export function writePayer(environmentId: number, keys: readonly string[], before: Payer, after: Payer): Statement[] {
  const values = { environmentId, keys: JSON.stringify(keys), version: before.version };
  const guard = guardPayer(values);
  if (after === before) return [guard];
  const { key, id, couponUntil } = after;
  const [carries, prices, trials] = [after.carries, after.prices, after.trials].map((part) => JSON.stringify(part)) as [
    string,
    string,
    string,
  ];
  const write = before.version === 0 ? insertPayer : updatePayer;
  return [guard, write({ ...values, key, id, carries, prices, trials, couponUntil })];
}

type PayerUser = { environmentId: number; userId: string; customer: string };
/** Remembers that a customer's invoice named a user, for the user's list of carries. */
export const insertPayerUser = query((value: ValueOf<PayerUser>) =>
  drizzle
    .insert(payerUsers)
    .values({ environmentId: value("environmentId"), userId: value("userId"), customer: value("customer") })
    .onConflictDoNothing(),
);

/** The carries of a user's customers: those whose invoices named the user, and those whose user it is. */
export const selectCarries = query((value: ValueOf<{ environmentId: number; userId: string }>) => {
  const { environmentId, customer, carries } = stripePayers;
  const customers = sql`
    SELECT ${payerUsers.customer} FROM ${payerUsers}
    WHERE ${payerUsers.environmentId} = ${value("environmentId")} AND ${payerUsers.userId} = ${value("userId")}
    UNION SELECT ${stripeCustomers.customer} FROM ${stripeCustomers} INDEXED BY stripe_customers_user
    WHERE ${stripeCustomers.environmentId} = ${value("environmentId")} AND ${stripeCustomers.userId} = ${value("userId")}`;
  return drizzle
    .select(fields(stripePayers, "customer", "carries"))
    .from(stripePayers)
    .where(and(eq(environmentId, value("environmentId")), sql`${customer} IN (${customers})`, sql`${carries} <> '{}'`))
    .orderBy(customer);
});

export const parseCarries = (rows: readonly { readonly customer: string; readonly carries: string }[]) =>
  rows.flatMap(({ customer, carries }) =>
    Object.entries(JSON.parse(carries) as Payer["carries"])
      .filter(([, amount]) => amount > 0)
      .map(([currency, amount]) => ({ customer, currency, amount })),
  );

import { and, desc, eq, gt, isNotNull, lt, ne, type SQL, sql } from "drizzle-orm";
import { asInteger, boundLimit, computed, drizzle, fields, query, type ValueOf } from "../db/query.ts";
import { accounts, creditBalances, paymentFacts, paymentGrants, payments, stripeCustomers } from "../db/schema.ts";
import type { REFUNDS, SETTLERS } from "./outcomes.ts";
import { shownFields } from "./stored-payment.ts";

/** The filters of a list of payments. Null matches any. */
export type PaymentFilters = {
  environmentId: number;
  status: string | null;
  refunds: (typeof REFUNDS)[number] | null;
  isDisputed: 0 | 1 | null;
  settledBy: (typeof SETTLERS)[number] | null;
  userId: string | null;
  externalRef: string | null;
};
type PaymentsPage = PaymentFilters & { beforeMs: number; beforeId: string; limit: number };

const refundsOf = () =>
  sql`iif(${payments.refunded} = 0, 'none', iif(${payments.refunded} >= ${payments.captured}, 'whole', 'part'))`;
const settlerOf = () =>
  sql`iif(${payments.status} <> 'granted' OR ${payments.reason} IS 'covered_by_credit', '', iif(${payments.settledBy} IS NULL, 'stripe', 'admin'))`;

const matchesFilters = (value: ValueOf<PaymentFilters>) => {
  const isAnyOr = (name: keyof PaymentFilters, column: SQL) =>
    sql`(${value(name)} IS NULL OR ${column} = ${value(name)})`;
  return and(
    eq(payments.environmentId, value("environmentId")),
    isAnyOr("status", sql`${payments.status}`),
    isAnyOr("refunds", refundsOf()),
    isAnyOr("isDisputed", sql`(${payments.withheld} > 0)`),
    isAnyOr("settledBy", settlerOf()),
  );
};

/** Selects the payments of a user: those that granted to the user, that name the user, or whose customer is the user. */
const paymentsOfUser = (value: ValueOf<PaymentFilters>) => sql`
  SELECT ${paymentGrants.paymentId} FROM ${accounts}
  CROSS JOIN ${creditBalances} ON ${creditBalances.accountId} = ${accounts.id}
  AND ${creditBalances.externalRef} IS NOT NULL
  CROSS JOIN ${paymentGrants} ON ${paymentGrants.balanceId} = ${creditBalances.id}
  WHERE ${accounts.environmentId} = ${value("environmentId")} AND ${accounts.userId} = ${value("userId")}
  UNION ${paymentsThatName(value)}`;

type NamedUser = { environmentId: number; userId: string | null };
/** Selects the payments that name a user, or whose customer is the user. */
const paymentsThatName = (value: ValueOf<NamedUser>) => sql`
  SELECT ${paymentFacts.paymentId} FROM ${paymentFacts} INDEXED BY payment_facts_user
  WHERE ${paymentFacts.environmentId} = ${value("environmentId")} AND ${paymentFacts.userId} = ${value("userId")}
  UNION SELECT ${payments.id} FROM ${stripeCustomers} INDEXED BY stripe_customers_user
  CROSS JOIN ${payments} INDEXED BY payments_customer ON ${payments.environmentId} = ${stripeCustomers.environmentId}
  AND ${payments.customer} = ${stripeCustomers.customer}
  WHERE ${stripeCustomers.environmentId} = ${value("environmentId")} AND ${stripeCustomers.userId} = ${value("userId")}`;
/** Selects the payments that granted balances under a reference. */
const ofRef = (value: ValueOf<PaymentFilters>) => sql`
  SELECT ${paymentGrants.paymentId} FROM ${creditBalances} INDEXED BY credit_balances_external_ref
  CROSS JOIN ${paymentGrants} ON ${paymentGrants.balanceId} = ${creditBalances.id}
  AND ${paymentGrants.environmentId} = ${value("environmentId")}
  WHERE ${creditBalances.externalRef} = ${value("externalRef")}`;

/** The FROM clause, with the index to use, and the condition that makes SQLite use the index. */
interface Source {
  readonly from: () => SQL;
  readonly where?: (value: ValueOf<PaymentFilters>) => SQL | undefined;
}
/** The sources of a list, the smallest first. Each uses an index with only these payments. */
const SOURCES = {
  ofUser: {
    from: () => sql`${payments}`,
    where: (value) =>
      and(
        sql`${payments.id} IN (${paymentsOfUser(value)})`,
        sql`(${value("externalRef")} IS NULL OR ${payments.id} IN (${ofRef(value)}))`,
      ),
  },
  ofRef: { from: () => sql`${payments}`, where: (value) => sql`${payments.id} IN (${ofRef(value)})` },
  disputed: { from: () => sql`${payments} INDEXED BY payments_disputed`, where: () => gt(payments.withheld, 0) },
  refunded: { from: () => sql`${payments} INDEXED BY payments_refunded`, where: () => gt(payments.refunded, 0) },
  settled: { from: () => sql`${payments} INDEXED BY payments_settled`, where: () => isNotNull(payments.settledBy) },
  status: {
    from: () => sql`${payments} INDEXED BY payments_status`,
    where: (value) => eq(payments.status, value("status")),
  },
  all: { from: () => sql`${payments} INDEXED BY payments_created` },
} satisfies Record<string, Source>;

function selectSource({ userId, externalRef, isDisputed, refunds, settledBy, status }: PaymentFilters) {
  if (userId !== null) return "ofUser";
  if (externalRef !== null) return "ofRef";
  if (isDisputed === 1) return "disputed";
  if (refunds !== null && refunds !== "none") return "refunded";
  if (settledBy === "admin") return "settled";
  return status === null ? "all" : "status";
}

const newestFirst = [desc(payments.createdAtMs), desc(payments.id)] as const;

const pageOf = ({ from, where }: Source) =>
  query((value: ValueOf<PaymentsPage>) =>
    drizzle
      .select(shownFields)
      .from(from())
      .where(
        and(
          matchesFilters(value),
          where?.(value),
          sql`(${payments.createdAtMs}, ${payments.id}) < (${asInteger(value("beforeMs"))}, ${value("beforeId")})`,
        ),
      )
      .orderBy(...newestFirst)
      .limit(boundLimit(value("limit"))),
  );
const sumsOfPayments = ({ from, where }: Source) =>
  query((value: ValueOf<PaymentFilters>) =>
    drizzle
      .select({
        ...fields(payments, "currency"),
        ...computed({
          captured: sql<number>`sum(${payments.captured})`,
          refunded: sql<number>`sum(${payments.refunded})`,
          withheld: sql<number>`sum(${payments.withheld})`,
        }),
      })
      .from(from())
      .where(and(matchesFilters(value), where?.(value), isNotNull(payments.currency)))
      .groupBy(payments.currency)
      .orderBy(payments.currency),
  );
type Statements = { readonly page: ReturnType<typeof pageOf>; readonly sums: ReturnType<typeof sumsOfPayments> };
const STATEMENTS: Readonly<Record<keyof typeof SOURCES, Statements>> = {
  ofUser: { page: pageOf(SOURCES.ofUser), sums: sumsOfPayments(SOURCES.ofUser) },
  ofRef: { page: pageOf(SOURCES.ofRef), sums: sumsOfPayments(SOURCES.ofRef) },
  disputed: { page: pageOf(SOURCES.disputed), sums: sumsOfPayments(SOURCES.disputed) },
  refunded: { page: pageOf(SOURCES.refunded), sums: sumsOfPayments(SOURCES.refunded) },
  settled: { page: pageOf(SOURCES.settled), sums: sumsOfPayments(SOURCES.settled) },
  status: { page: pageOf(SOURCES.status), sums: sumsOfPayments(SOURCES.status) },
  all: { page: pageOf(SOURCES.all), sums: sumsOfPayments(SOURCES.all) },
};

/** Selects a page of payments, newest first. */
export const selectPage = (page: PaymentsPage) => STATEMENTS[selectSource(page)].page(page);
/** Selects the paid and returned amounts of all payments that match the filters, by currency. */
export const selectSums = (filters: PaymentFilters) => STATEMENTS[selectSource(filters)].sums(filters);

/** How many payments that name a user are examined in the search for payments that granted nothing. */
const SEARCHED_PAYMENTS_MAX = 500;

/** A user's payments that have granted nothing, newest first. */
export const selectUngranted = query(
  (value: ValueOf<{ environmentId: number; userId: string; beforeMs: number; limit: number }>) =>
    drizzle
      .select(shownFields)
      .from(payments)
      .where(
        and(
          eq(payments.environmentId, value("environmentId")),
          ne(payments.status, "granted"),
          sql`${payments.id} IN (SELECT * FROM (${paymentsThatName(value)} LIMIT ${SEARCHED_PAYMENTS_MAX}))`,
          lt(payments.createdAtMs, asInteger(value("beforeMs"))),
        ),
      )
      .orderBy(...newestFirst)
      .limit(boundLimit(value("limit"))),
);

/** The payments that granted some balances. */
export const selectOfBalances = query((value: ValueOf<{ environmentId: number; balanceIds: string }>) =>
  drizzle
    .select(shownFields)
    .from(payments)
    .where(
      and(
        eq(payments.environmentId, value("environmentId")),
        sql`${payments.id} IN (
          SELECT ${paymentGrants.paymentId} FROM json_each(${value("balanceIds")}) AS balance
          CROSS JOIN ${paymentGrants} ON ${paymentGrants.balanceId} = balance.value
          AND ${paymentGrants.environmentId} = ${value("environmentId")}
        )`,
      ),
    ),
);

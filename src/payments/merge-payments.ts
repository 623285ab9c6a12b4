import { sql } from "drizzle-orm";
import type { SQLiteColumn } from "drizzle-orm/sqlite-core";
import { drizzle, query, type ValueOf } from "../db/query.ts";
import { paymentEvents, paymentFacts, paymentGrants, paymentNames, payments } from "../db/schema.ts";
import type { Statement } from "../db/sql.ts";

/** Stored payments that turned out to be one payment. */
interface PaymentMerge {
  readonly environmentId: number;
  /** The payment that is kept. */
  readonly id: string;
  /** The payments that become part of it. */
  readonly otherIds: readonly string[];
  /** The ids of balances to take back completely, because another grant of the payment came first. */
  readonly surplus: readonly string[];
}

/** Returns the statements that merge payments into one. An empty list of others needs none. */
export function mergePayments({ environmentId, id, otherIds, surplus }: PaymentMerge): Statement[] {
  if (otherIds.length === 0) return [];
  const merge = { environmentId, id, otherIds: JSON.stringify(otherIds) };
  return [
    moveNames(merge),
    moveGrants({ ...merge, surplus: JSON.stringify(surplus) }),
    moveEvents(merge),
    deleteFacts(merge),
    deletePayments(merge),
  ];
}

type Merge = { environmentId: number; id: string; otherIds: string };
const othersOf = (value: ValueOf<Merge>) => sql`SELECT value FROM json_each(${value("otherIds")})`;
/** Returns a condition: a row belongs to one of the payments that are merged into another. */
const ofOthers = (
  { environmentId, paymentId }: { readonly environmentId: SQLiteColumn; readonly paymentId: SQLiteColumn },
  value: ValueOf<Merge>,
) => sql`${environmentId} = ${value("environmentId")} AND ${paymentId} IN (${othersOf(value)})`;

const moveNames = query((value: ValueOf<Merge>) =>
  drizzle
    .update(paymentNames)
    .set({ paymentId: value("id", paymentNames.paymentId) })
    .where(ofOthers(paymentNames, value)),
);
const moveEvents = query((value: ValueOf<Merge>) =>
  drizzle
    .update(paymentEvents)
    .set({ paymentId: value("id", paymentEvents.paymentId) })
    .where(ofOthers(paymentEvents, value)),
);
const moveGrants = query((value: ValueOf<Merge & { surplus: string }>) => {
  const { environmentId, paymentId, balanceId, isSurplus } = paymentGrants;
  return drizzle
    .update(paymentGrants)
    .set({
      paymentId: value("id", paymentId),
      isSurplus: sql`max(${isSurplus}, ${balanceId} IN (SELECT value FROM json_each(${value("surplus")})))`,
    })
    .where(
      sql`${environmentId} = ${value("environmentId")}
        AND ${paymentId} IN (${othersOf(value)} UNION ALL SELECT ${value("id")})`,
    );
});
const deleteFacts = query((value: ValueOf<Merge>) => drizzle.delete(paymentFacts).where(ofOthers(paymentFacts, value)));
const deletePayments = query((value: ValueOf<Merge>) =>
  drizzle.delete(payments).where(ofOthers({ environmentId: payments.environmentId, paymentId: payments.id }, value)),
);

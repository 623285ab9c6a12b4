import type { RowsOf } from "../db/sql.ts";
import type { Credited, Move } from "./decide.ts";
import type { PaymentChange } from "./event.ts";
import type { StoredDebt } from "./line.ts";
import { type PaymentStanding, standingOfKnown } from "./next-step.ts";
import type { AccountPlan, Books } from "./plan.ts";
import { type PaymentState, stateOf } from "./state.ts";
import { readDebt, selectDebts } from "./stored-debts.ts";
import { readPayment, type StoredPayment, selectCustomer, selectPayments } from "./stored-payment.ts";

export interface EventBooks extends Books {
  /** The event's own payment, the first of `payments`. */
  readonly own: PaymentState;
}

/** The stored state of everything that an event concerns, joined with the event. */
export function booksOf(
  rows: readonly StoredPayment[],
  change: Pick<PaymentChange, "names" | "facts" | "customer">,
  credited: readonly Credited[],
  { customerUser, debts }: { readonly customerUser: string | null; readonly debts: readonly StoredDebt[] },
): EventBooks {
  const isNamed = (names: readonly string[]) => (row: StoredPayment) => row.names.some((name) => names.includes(name));
  const isOwn = isNamed(change.names);
  const ownRows = rows.filter(isOwn);
  const ownNames = [...change.names, ...ownRows.flatMap(({ names }) => names)];
  const beside = credited.filter(({ invoice }) => ownNames.includes(invoice)).flatMap(({ facts }) => facts);
  const own = stateOf(ownRows, { ...change, facts: [...change.facts, ...beside] }, customerUser);
  const others = credited.filter(({ invoice }) => !ownNames.includes(invoice));
  const known = rows.filter((row) => !isOwn(row));
  const stored = known.map((row) => {
    const facts = others.filter(({ invoice }) => row.names.includes(invoice)).flatMap((one) => one.facts);
    return stateOf([row], { names: [], facts, customer: null }, null);
  });
  const fresh = others
    .filter(({ invoice }) => !known.some(isNamed([invoice])))
    .map(({ invoice, facts }) => stateOf([], { names: [invoice], facts, customer: null }, null));
  const customer = change.customer ?? own.customer ?? "";
  return { own, payments: [own, ...stored, ...fresh], debts, customer };
}

/** The payments that a batch stores, each with its status. `all`: also those with new facts only. */
export function paymentsToStore(
  { own, payments }: EventBooks,
  { motions, lines }: Pick<AccountPlan, "motions" | "lines">,
  standing: PaymentStanding,
  all: boolean,
): readonly { readonly payment: PaymentState; readonly standing: PaymentStanding }[] {
  const isTouched = (payment: PaymentState) =>
    motions.some((motion) => motion.payment === payment) || lines.some((line) => line.payment === payment);
  return payments
    .filter((payment) => isTouched(payment) || (all && (payment === own || payment.isChanged)))
    .map((payment) => ({ payment, standing: payment === own ? standing : standingOfKnown(payment) }));
}

/** The lines of a payment after a plan. */
export function linesAfter(payment: PaymentState, { lines }: Pick<AccountPlan, "lines">) {
  const planned = lines.filter((one) => one.payment === payment).map(({ line }) => line);
  const kept = payment.lines.filter(({ key }) => !planned.some((line) => line.key === key));
  return [...kept, ...planned];
}

/**
 * The queries for everything that an event concerns: its payment, payments that it credits or whose lines get something back (`more`
 * has their names), and the debts, including those of the user to whom it may grant.
 */
export function selectBooks(
  environmentId: number,
  { change, credited = [] }: Move,
  more: Iterable<string>,
  userId: string,
) {
  const customer = change.customer ?? "";
  const names = JSON.stringify([...change.names, ...credited.map(({ invoice }) => invoice), ...more]);
  return [
    selectPayments({ environmentId, names }),
    selectCustomer({ environmentId, customer }),
    selectDebts({ environmentId, names, customer, userId }),
  ] as const;
}

export type BooksRows = RowsOf<ReturnType<typeof selectBooks>>;

/** The rows of these queries, joined with the event. */
export function readBooks({ change, credited = [] }: Move, [rows, customers, debts]: BooksRows): EventBooks {
  const known = { customerUser: customers[0]?.userId ?? null, debts: debts.map(readDebt) };
  return booksOf(rows.map(readPayment), change, credited, known);
}

/** Whether the user must still be stored. A grant's account has its user, and an erased person is not named again (E4). */
const needsUser = ({ status, reason }: PaymentStanding): boolean => status !== "granted" && reason !== "person_erased";

/** The customer to store. */
export const customerToStore = ({ customer }: PaymentState, standing: PaymentStanding): string | null =>
  needsUser(standing) ? customer : null;

/** The amounts to store, for filters and sums. */
export function moneyToStore({ money: { currency, captured, refunded, withheld } }: PaymentState) {
  return { currency, captured: Number(captured), refunded: Number(refunded), withheld: Number(withheld) };
}

/** The facts to store. */
export function factsToStore({ facts }: PaymentState, standing: PaymentStanding): PaymentState["facts"] {
  if (needsUser(standing)) return facts;
  return facts.map((fact) => (fact.userId === null ? fact : { ...fact, userId: null }));
}

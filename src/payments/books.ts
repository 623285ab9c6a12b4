import type { RowsOf } from "../db/sql.ts";
import type { Credited, Move } from "./decide.ts";
import type { PaymentChange } from "./event.ts";
import type { Fact } from "./facts.ts";
import type { StoredDebt } from "./line.ts";
import { type PaymentStanding, standingOfKnown } from "./next-step.ts";
import type { AccountPlan, Books } from "./plan.ts";
import { type PaymentState, stateOf } from "./state.ts";
import { readDebt, selectDebts } from "./stored-debts.ts";
import { readPayment, type StoredPayment, selectCustomer, selectPayments } from "./stored-payment.ts";

export interface EventBooks extends Books {
  /** The payment that the event is about, the first of `payments`. */
  readonly eventPayment: PaymentState;
}

/** Returns the stored state of everything that an event concerns, joined with the event. */
export function booksOf(
  rows: readonly StoredPayment[],
  change: Pick<PaymentChange, "names" | "facts" | "customer">,
  credited: readonly Credited[],
  { customerUser, debts }: { readonly customerUser: string | null; readonly debts: readonly StoredDebt[] },
): EventBooks {
  const isNamed = (names: readonly string[]) => (row: StoredPayment) => row.names.some((name) => names.includes(name));
  const isEventRow = isNamed(change.names);
  const eventRows = rows.filter(isEventRow);
  const eventNames = [...change.names, ...eventRows.flatMap(({ names }) => names)];
  const creditFacts = credited.filter(({ invoice }) => eventNames.includes(invoice)).flatMap(({ facts }) => facts);
  const eventPayment = stateOf(eventRows, { ...change, facts: [...change.facts, ...creditFacts] }, customerUser);
  const otherCredits = credited.filter(({ invoice }) => !eventNames.includes(invoice));
  const otherRows = rows.filter((row) => !isEventRow(row));
  const stored = otherRows.map((row) => {
    const facts = otherCredits.filter(({ invoice }) => row.names.includes(invoice)).flatMap((credit) => credit.facts);
    return stateOf([row], { names: [], facts, customer: null }, null);
  });
  const notStored = otherCredits
    .filter(({ invoice }) => !otherRows.some(isNamed([invoice])))
    .map(({ invoice, facts }) => stateOf([], { names: [invoice], facts, customer: null }, null));
  const customer = change.customer ?? eventPayment.customer ?? "";
  return { eventPayment, payments: [eventPayment, ...stored, ...notStored], debts, customer };
}

/** Returns the payments that a batch stores, each with its status. `all`: also payments that only have new facts. */
export function paymentsToStore(
  { eventPayment, payments }: EventBooks,
  { motions, lines }: Pick<AccountPlan, "motions" | "lines">,
  standing: PaymentStanding,
  all: boolean,
): readonly { readonly payment: PaymentState; readonly standing: PaymentStanding }[] {
  const isTouched = (payment: PaymentState) =>
    motions.some((motion) => motion.payment === payment) || lines.some((line) => line.payment === payment);
  return payments
    .filter((payment) => isTouched(payment) || (all && (payment === eventPayment || payment.isChanged)))
    .map((payment) => ({ payment, standing: payment === eventPayment ? standing : standingOfKnown(payment) }));
}

/** Returns the lines of a payment after a plan. */
export function linesAfter(payment: PaymentState, { lines }: Pick<AccountPlan, "lines">) {
  const planned = lines.filter((plannedLine) => plannedLine.payment === payment).map(({ line }) => line);
  const kept = payment.lines.filter(({ key }) => !planned.some((line) => line.key === key));
  return [...kept, ...planned];
}

/**
 * Returns the queries for everything that an event concerns: its payment, the payments that it credits, further payments (`more` has
 * their names), and the debts, including the debts of the user to whom it may grant.
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

/** Joins the rows of these queries with the event. */
export function readBooks({ change, credited = [] }: Move, [rows, customers, debts]: BooksRows): EventBooks {
  const known = { customerUser: customers[0]?.userId ?? null, debts: debts.map(readDebt) };
  return booksOf(rows.map(readPayment), change, credited, known);
}

/** Returns whether to store the user. After a grant its account has the user, and an erased person is not stored again (E4). */
const needsUser = ({ status, reason }: PaymentStanding): boolean => status !== "granted" && reason !== "person_erased";

/** Returns the customer to store. */
export const customerToStore = ({ customer }: PaymentState, standing: PaymentStanding): string | null =>
  needsUser(standing) ? customer : null;

/** Returns the amounts to store, for filters and sums. */
export function moneyToStore({ money: { currency, captured, refunded, withheld } }: PaymentState) {
  return { currency, captured: Number(captured), refunded: Number(refunded), withheld: Number(withheld) };
}

/** Returns the facts to store. Those of a payment that needs no user have no texts of a caller either. */
export function factsToStore({ facts }: PaymentState, standing: PaymentStanding): PaymentState["facts"] {
  return needsUser(standing) ? facts : facts.map(withoutAsked);
}

function withoutAsked(fact: Fact): Fact {
  if (fact.kind !== "session" && fact.kind !== "intent") return fact.userId === null ? fact : { ...fact, userId: null };
  return { ...fact, userId: null, data: { ...fact.data, pack: null, quantity: null } };
}

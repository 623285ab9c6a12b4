import type { RowsOf } from "../db/sql.ts";
import { booksOf, type EventBooks } from "./books.ts";
import type { Move } from "./decide.ts";
import { readDebt, selectDebts } from "./stored-debts.ts";
import { readPayment, selectCustomer, selectPayments } from "./stored-payment.ts";

/**
 * The queries of what an event touches: its payment, those that it credits or whose lines get something back (`more` are names of
 * theirs), and the debts, also of the user to whom it may grant.
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

/** What these queries found, with the event's news. */
export function readBooks({ change, credited = [] }: Move, [rows, customers, debts]: BooksRows): EventBooks {
  const known = { customerUser: customers[0]?.userId ?? null, debts: debts.map(readDebt) };
  return booksOf(rows.map(readPayment), change, credited, known);
}

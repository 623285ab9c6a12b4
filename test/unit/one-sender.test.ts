import { globSync, readFileSync } from "node:fs";
import { expect, it } from "vitest";

/** The functions whose statements write a user's books. */
const WRITES =
  /\b(insertEntries|insertBalances|insertPeriods|insertPeriodsOfMany|insertClawbacks|insertReversal|insertPaymentBalanceChanges|settleReservations|settlementWrites|writesOfSettlements|changeRecurring)\b/;
/** A batch of more than SELECTs. */
const SENDS = /\bbatch\((?![\w.]+, \[\s*select)/;
/** They write many accounts in one batch: the pages of an erasure, and the due periods of the cron. */
const OF_MANY = ["src/books/recurring/grant-due.ts", "src/erasure/erase-books.ts"];
/** `src/erasure/erase-books.ts` returns its statements to the page that sends them. */
const SENDERS = ["src/books/ledger/commit-change.ts", "src/books/recurring/grant-due.ts"];

const files = globSync("src/**/*.{ts,tsx}").sort();
const textOf = (file: string) => readFileSync(file, "utf8");
const writing = files.filter((file) => WRITES.test(textOf(file)));

it("lets only `commit`, and the cron for many users, send the statements that write the books", () => {
  expect(writing.filter((file) => SENDS.test(textOf(file)))).toEqual(SENDERS);
});

it("lets only decisions that `commit` sends make such statements", () => {
  const outside = writing.filter((file) => !file.startsWith("src/books/ledger/"));
  expect(outside.filter((file) => !/\b(?:writeForUser|Decision)\b/.test(textOf(file)))).toEqual(OF_MANY);
});

import { globSync, readFileSync } from "node:fs";
import { expect, it } from "vitest";

/** A condition that joins an entry with the one before it. */
const MINOR_BACK = /= \$\{[\w.]*previousSeq\}|\b[sS]eq\} - 1\b/;
/** `alert-writes.ts` reads one entry: the last before the batch. */
const STEPPING = ["src/books/ledger/alert-writes.ts", "src/books/ledger/walk-back.ts"];

/** `first-seq.ts` halves the range of seqs. */
const HALVING = ["src/books/credits/first-seq.ts"];

const files = globSync("src/**/*.{ts,tsx}").sort();
const textOf = (file: string) => readFileSync(file, "utf8");

it("lets only `walkBack` walk the ledger backwards", () => {
  const stepping = files.filter((file) => MINOR_BACK.test(textOf(file)));
  expect(stepping).toEqual(STEPPING);
  const recursive = files.filter((file) => /\bcreditLedger\b/.test(textOf(file)) && /\bRECURSIVE\b/.test(textOf(file)));
  expect(recursive.filter((file) => !/\bwalkBack\b/.test(textOf(file)))).toEqual(HALVING);
});

/** Amounts in SQL: as the decimals of JSON, and as sums that do not overflow. */

import { type Column, type SQL, type SQLWrapper, sql } from "drizzle-orm";
import type { SQLiteColumn } from "drizzle-orm/sqlite-core";
import { computed } from "../../db/query.ts";
import type { Unit } from "./amount.ts";

/**
 * Returns SQL that writes minor units as the decimal that `fromMinor` returns. The text is JSON. It is written digit by digit, because
 * SQLite does not print doubles exactly.
 */
export function amountJson(minor: SQLWrapper, unit: Unit | SQLWrapper): SQL {
  const digits =
    typeof unit === "string"
      ? digitsOf(minor, unit === "cents")
      : sql`iif(${unit} = 'cents', ${digitsOf(minor, true)}, ${digitsOf(minor, false)})`;
  return sql`iif(${minor} < 0, '-', '') || rtrim(rtrim(${digits}, '0'), '.')`;
}

const digitsOf = (minor: SQLWrapper, isCents: boolean): SQL =>
  isCents
    ? sql`printf('%d.%06d', abs(${minor}) / 1000000, abs(${minor}) % 1000000)`
    : sql`printf('%d.%03d', abs(${minor}) / 1000, abs(${minor}) % 1000)`;

/** The same as `amountJson`, as a JSON value. Both expressions are repeated, so they must not contain bound values. */
export const amountOf = (minor: SQL | SQLiteColumn, unit: SQL | SQLiteColumn): SQL =>
  sql`json(iif(${minor} < 0, '-', '') || rtrim(rtrim(
  iif(${unit} = 'cents', printf('%d.%06d', abs(${minor}) / 1000000, abs(${minor}) % 1000000),
    printf('%d.%03d', abs(${minor}) / 1000, abs(${minor}) % 1000)), '0'), '.'))`;

/** Sums are computed in two parts, because a sum of a thousand of the largest amounts overflows SQLite's integers. */
const SUM_DIVISOR = 2 ** 26;
/** The two parts of an amount. Each can be summed, and `minorOfSum` joins the sums. */
export const partsOf = (minor: Column | SQL) => ({
  whole: sql`${minor} / ${SUM_DIVISOR}`,
  rest: sql`${minor} % ${SUM_DIVISOR}`,
});
/** The sum of amounts, in two parts. */
export function sumOfMinor(minor: Column | SQL) {
  const { whole, rest } = partsOf(minor);
  return computed({ whole: sql<number>`sum(${whole})`, rest: sql<number>`sum(${rest})` });
}
/** The sums of two parts, with what the second carries to the first, so that sums can be compared. */
export const carriedSums = (whole: SQLWrapper, rest: SQLWrapper) => ({
  whole: sql<number>`sum(${whole}) + sum(${rest}) / ${SUM_DIVISOR}`,
  rest: sql<number>`sum(${rest}) % ${SUM_DIVISOR}`,
});
const SUM_WHOLE_MAX = 119_000_000_000;
/** The sum of amounts as one integer that does not overflow: it is at most 8 * 10^18. */
export function capSum(minor: SQL): SQL {
  const { whole, rest } = partsOf(minor);
  return sql`(min(sum(${whole}), ${SUM_WHOLE_MAX}) * ${SUM_DIVISOR} + sum(${rest}))`;
}
/** Returns the two parts of an amount, as `partsOf` does. */
export const partsOfMinor = (minor: number): readonly [whole: number, rest: number] => [
  Math.floor(minor / SUM_DIVISOR),
  minor % SUM_DIVISOR,
];
/** The same for a meter, which has no double. */
export const partsOfThousandths = (thousandths: bigint): readonly [whole: number, rest: number] => [
  Number(thousandths / BigInt(SUM_DIVISOR)),
  Number(thousandths % BigInt(SUM_DIVISOR)),
];
export const minorOfSum = ({ whole, rest }: { readonly whole: number; readonly rest: number }): bigint =>
  BigInt(whole) * BigInt(SUM_DIVISOR) + BigInt(rest);

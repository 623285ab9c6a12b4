import { type SQL, type SQLWrapper, sql } from "drizzle-orm";
import type { Unit } from "./amount.ts";

/**
 * Returns SQL that writes steps of a unit as a decimal text, which is JSON, as `fromSteps` does. It writes digit by digit,
 * because SQLite does not print doubles exactly.
 */
export function amountJson(steps: SQLWrapper, unit: Unit | SQLWrapper): SQL {
  const digits =
    typeof unit === "string"
      ? digitsOf(steps, unit === "cents")
      : sql`iif(${unit} = 'cents', ${digitsOf(steps, true)}, ${digitsOf(steps, false)})`;
  return sql`iif(${steps} < 0, '-', '') || rtrim(rtrim(${digits}, '0'), '.')`;
}

// The divisors are literals in the SQL: bound numbers are REAL, and would divide as REAL.
const digitsOf = (steps: SQLWrapper, isCents: boolean): SQL =>
  isCents
    ? sql`printf('%d.%06d', abs(${steps}) / 1000000, abs(${steps}) % 1000000)`
    : sql`printf('%d.%03d', abs(${steps}) / 1000, abs(${steps}) % 1000)`;

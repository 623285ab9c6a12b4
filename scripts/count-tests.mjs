/** Prints `N passed, N failed, N skipped` of a Vitest JSON report; fails when no test ran. */
import { readFileSync } from "node:fs";

const report = JSON.parse(readFileSync(process.argv[2] ?? "", "utf8"));
const { numPassedTests: passed, numFailedTests: failed, numPendingTests: skipped } = report;
console.log(`${passed} passed, ${failed} failed, ${skipped} skipped`);
if (passed + failed === 0) process.exitCode = 1;

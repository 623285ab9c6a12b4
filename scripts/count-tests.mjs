/** Prints `N passed, N failed` for a Vitest JSON report as the last line. Fails when no test ran. */
import { readFileSync } from "node:fs";

const report = JSON.parse(readFileSync(process.argv[2] ?? "", "utf8"));
const { numPassedTests: passed, numFailedTests: failed, numPendingTests: skipped } = report;
if (skipped > 0) console.log(`${skipped} tests were skipped.`);
console.log(`${passed} passed, ${failed} failed`);
if (passed + failed === 0) process.exitCode = 1;

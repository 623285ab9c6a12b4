import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { DOLLARS, PLAN } from "../support/cloudflare-prices.ts";

const page = readFileSync("docs/costs.md", "utf8");
const [, months = "", calls = ""] = page.split(/^## (?:A month|A million calls)$/m);
const scale = readFileSync("docs/scale.md", "utf8");

/** Returns the numbers of the table's line that begins with this cell. */
function numbersOf(text: string, cell: string): number[] {
  const [, rest = ""] = text.split(`| ${cell} `);
  const [line = ""] = rest.split("\n");
  return [...line.matchAll(/\d[\d,.]*/g)].map(([number]) => Number(number.replaceAll(",", "")));
}

const DAYS = 30;
const EVENTS_A_DAY = 20;
const READS_A_DAY = 10;
const CRON_REQUESTS = DAYS * 24 * 60;
/** The rows of a sum that holds one event: its mark, and what the cron writes for it. */
const SUM_ROWS_MAX = 5;
const MILLISECONDS = 5;

function monthOf(users: number) {
  const [, eventRows = 0] = numbersOf(calls, "Usage events");
  const [, grantRows = 0] = numbersOf(calls, "Grants");
  const [eventBytes = 0] = numbersOf(scale, "Usage event that one balance pays");
  const [grantBytes = 0] = numbersOf(scale, "Grant of one item");
  const events = users * EVENTS_A_DAY * DAYS;
  const requests = events + users * READS_A_DAY * DAYS + users + CRON_REQUESTS;
  const rowsWritten = events * (eventRows + SUM_ROWS_MAX) + users * grantRows;
  const beyond = (used: number, included: number, price: number) => (Math.max(0, used - included) / 1e6) * price;
  const dollars =
    PLAN.dollars +
    beyond(requests, PLAN.requests, DOLLARS.requests) +
    beyond(requests * MILLISECONDS, PLAN.milliseconds, DOLLARS.milliseconds) +
    beyond(rowsWritten, PLAN.rowsWritten, DOLLARS.rowsWritten);
  const gigabytes = (events * eventBytes + users * grantBytes) / 1e9;
  return [events, requests, rowsWritten, Number(gigabytes.toFixed(2)), Number(dollars.toFixed(2))];
}

it.each(["100", "1,000", "10,000"])("docs/costs.md says what a month of %s active users costs", (users) => {
  expect(numbersOf(months, users)).toEqual(monthOf(Number(users.replace(",", ""))));
});

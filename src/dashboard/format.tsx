import { createContext, useContext } from "hono/jsx";
import { doubleOf } from "../books/amounts/amount.ts";
import { numberText } from "../lib/json.ts";
import { DAY_MS, HOUR_MS, MINUTE_MS } from "../lib/time.ts";

/** This file formats numbers and times for people, the same on every page, in UTC. */
let number: Intl.NumberFormat | undefined;
let compact: Intl.NumberFormat | undefined;

/** Returns a number with all its digits, even if it has more digits than a double (`exactAmount`). */
export function amountText(value: number): string {
  number ??= new Intl.NumberFormat("en", { maximumFractionDigits: 6 });
  // `format` accepts digits as text, but its type only allows literals.
  return number.format(typeof value === "number" ? value : (numberText(value) as "0"));
}
export function shortAmount(value: number): string {
  compact ??= new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
  return compact.format(doubleOf(value));
}
export const signed = (value: number): string => `${doubleOf(value) > 0 ? "+" : ""}${amountText(value)}`;

/** Returns quantities as text: `1 count, 500 tokens`. */
export const quantitiesText = (quantities: object): string =>
  Object.entries(quantities)
    .map(([unit, value]) => `${typeof value === "string" ? value : amountText(value)} ${unit}`)
    .join(", ");

/** Returns `2026-01-15 12:00:00` for an ISO time. */
export const timeText = (iso: string | null, otherwise = "never"): string =>
  iso === null ? otherwise : iso.slice(0, 19).replace("T", " ");

const SPANS = [
  [DAY_MS, "day"],
  [HOUR_MS, "hour"],
  [MINUTE_MS, "minute"],
  [1_000, "second"],
] as const;

/** Returns a span of time in its largest whole unit: `3 minutes`. */
export function span(milliseconds: number): string {
  const [size, name] = SPANS.find(([each]) => milliseconds >= each) ?? [1_000, "second"];
  const count = Math.max(0, Math.floor(milliseconds / size));
  return `${amountText(count)} ${name}${count === 1 ? "" : "s"}`;
}

/** Returns a query string of the fields that have a value, with its question mark. Empty when none has. */
export function queryString(fields: Readonly<Record<string, string | undefined>>): string {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(fields)) if (value !== undefined && value !== "") search.set(name, value);
  return search.size === 0 ? "" : `?${search}`;
}

/** The currencies that Stripe counts in whole units, and those in thousandths. It counts all others in hundredths. */
const WHOLE = new Set("bif clp djf gnf jpy kmf krw mga pyg rwf vnd vuv xaf xof xpf".split(" "));
const THOUSANDTHS = new Set("bhd jod kwd omr tnd".split(" "));

const moneyFormats = new Map<string, Intl.NumberFormat>();

function moneyFormat(currency: string, digits: number, decimalsMax: number): Intl.NumberFormat {
  const key = `${currency} ${decimalsMax}`;
  const known = moneyFormats.get(key);
  if (known !== undefined) return known;
  const format = new Intl.NumberFormat("en", {
    ...(/^[a-z]{3}$/.test(currency) ? { style: "currency", currency } : {}),
    ...{ minimumFractionDigits: digits, maximumFractionDigits: decimalsMax, roundingMode: "trunc" },
  });
  moneyFormats.set(key, format);
  return format;
}

/**
 * Returns `$15.00` for 1,500 of Stripe's smallest units, and `$2.79` for 279.9: parts of a unit are left out, unless there is
 * nothing else. For an unknown currency, returns those units.
 */
export function moneyText(smallest: number, currency: string | null): string {
  const value = doubleOf(smallest);
  if (currency === null) return value === 0 ? "–" : `${amountText(smallest)} (smallest unit)`;
  const digits = WHOLE.has(currency) ? 0 : THOUSANDTHS.has(currency) ? 3 : 2;
  const format = moneyFormat(currency, digits, Math.abs(value) < 1 ? digits + 6 : digits);
  // `format` accepts digits as text, but its type only allows literals.
  const text = format.format(`${numberText(smallest) ?? value}e-${digits}` as "0");
  return /^[a-z]{3}$/.test(currency) ? text : `${text} ${currency.toUpperCase()}`;
}

interface MoneySums {
  readonly currency: string;
  readonly captured: number;
  readonly refunded: number;
  readonly withheld: number;
}

/** Returns `$298.00 paid, $10.00 refunded`, without the amounts of 0 after the first. */
export const moneySumsText = ({ currency, captured, refunded, withheld }: MoneySums): string =>
  [
    `${moneyText(captured, currency)} paid`,
    ...(refunded === 0 ? [] : [`${moneyText(refunded, currency)} refunded`]),
    ...(withheld === 0 ? [] : [`${moneyText(withheld, currency)} withheld`]),
  ].join(", ");

/** The times of the page, from which its relative times count: that of its environment, and real time. */
export const NowContext = createContext({ nowMs: 0, realMs: 0 });

/** Returns the length of windows or periods, and their time zone unless it is UTC. */
export const everyText = (every: string, timeZone: string | null): string =>
  timeZone === null || timeZone === "UTC" ? every : `${every}, ${timeZone}`;

let relative: Intl.RelativeTimeFormat | undefined;
let date: Intl.DateTimeFormat | undefined;

const TIME_UNITS = [
  [DAY_MS, "day"],
  [HOUR_MS, "hour"],
  [MINUTE_MS, "minute"],
] as const;
/** The distance in days beyond which a time is shown as a date. */
const RELATIVE_DAYS_MAX = 30;

/** Returns `3 minutes ago`, `in 2 days`, or a date such as `15 Jan 2026`. */
function nearText(atMs: number, nowMs: number): string {
  relative ??= new Intl.RelativeTimeFormat("en", { numeric: "always" });
  date ??= new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", year: "numeric", timeZone: "UTC" });
  const away = atMs - nowMs;
  const [size, unit] = TIME_UNITS.find(([each]) => Math.abs(away) >= each) ?? [0, null];
  if (unit === null) return away <= 0 ? "just now" : "in less than a minute";
  if (Math.abs(away) >= RELATIVE_DAYS_MAX * DAY_MS) return date.format(atMs);
  return relative.format(Math.trunc(away / size), unit);
}

interface TimeProps {
  readonly at: string | null;
  readonly otherwise?: string | undefined;
  /** Whether the moment is in real time even if the environment has a test clock (D3). */
  readonly isReal?: boolean;
}

/** Shows a moment relative to now, with the exact moment in UTC on hover. */
export const Time = ({ at, otherwise = "never", isReal = false }: TimeProps) => {
  const { nowMs, realMs } = useContext(NowContext);
  if (at === null) return <span class="soft">{otherwise}</span>;
  return (
    <time datetime={at} title={`${at.slice(0, 19).replace("T", " ")} UTC`}>
      {nearText(Date.parse(at), isReal ? realMs : nowMs)}
    </time>
  );
};

/** Shows when an hourly figure was computed: `Updated 18:09 UTC, every hour.` */
export const Updated = ({ at, what }: { at: string; what?: string }) => (
  <p class="soft" title={`${at.slice(0, 19).replace("T", " ")} UTC`}>
    {what === undefined ? "" : `${what}: `}
    {what === undefined ? "Updated" : "updated"} {at.slice(11, 16)} UTC, every hour.
  </p>
);

/** Says when credits end if usage goes on: `in about 4 days`. */
export function runsOutText(daysLeft: number): string {
  if (daysLeft === 0) return "now: nothing is left";
  const days = Math.round(daysLeft);
  return daysLeft < 1 ? "within a day" : `in about ${amountText(days)} ${days === 1 ? "day" : "days"}`;
}

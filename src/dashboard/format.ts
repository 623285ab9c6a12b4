/** This file formats numbers and times for people, the same on every page, in UTC. */
let number: Intl.NumberFormat | undefined;
let compact: Intl.NumberFormat | undefined;

export function amountText(value: number): string {
  number ??= new Intl.NumberFormat("en", { maximumFractionDigits: 6 });
  return number.format(value);
}
export function shortAmount(value: number): string {
  compact ??= new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
  return compact.format(value);
}
export const signed = (value: number): string => (value > 0 ? `+${amountText(value)}` : amountText(value));

/** Returns `2026-01-15 12:00:00` for an ISO time. */
export const timeText = (iso: string | null, otherwise = "never"): string =>
  iso === null ? otherwise : iso.slice(0, 19).replace("T", " ");

const SPANS = [
  [86_400_000, "day"],
  [3_600_000, "hour"],
  [60_000, "minute"],
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

/** Returns `$15.00` for 1,500 of Stripe's smallest units. For an unknown currency, returns those units. */
export function moneyText(smallest: number, currency: string | null): string {
  if (currency === null) return smallest === 0 ? "–" : `${smallest.toLocaleString("en")} (smallest unit)`;
  const digits = WHOLE.has(currency) ? 0 : THOUSANDTHS.has(currency) ? 3 : 2;
  const format = { minimumFractionDigits: digits, maximumFractionDigits: digits };
  const value = smallest / 10 ** digits;
  if (!/^[a-z]{3}$/.test(currency)) return `${value.toLocaleString("en", format)} ${currency.toUpperCase()}`;
  return value.toLocaleString("en", { ...format, style: "currency", currency });
}

/** Currencies that Stripe counts in whole units, and in thousandths. All others it counts in hundredths. */
const WHOLE = new Set("bif clp djf gnf jpy kmf krw mga pyg rwf vnd vuv xaf xof xpf".split(" "));
const THOUSANDTHS = new Set("bhd jod kwd omr tnd".split(" "));

/** `$15.00` for 1,500 of Stripe's smallest units. Of no known currency: those units. */
export function money(smallest: number, currency: string | null): string {
  if (currency === null) return smallest === 0 ? "–" : `${smallest.toLocaleString("en")} (smallest unit)`;
  const digits = WHOLE.has(currency) ? 0 : THOUSANDTHS.has(currency) ? 3 : 2;
  const format = { minimumFractionDigits: digits, maximumFractionDigits: digits };
  const value = smallest / 10 ** digits;
  if (!/^[a-z]{3}$/.test(currency)) return `${value.toLocaleString("en", format)} ${currency.toUpperCase()}`;
  return value.toLocaleString("en", { ...format, style: "currency", currency });
}

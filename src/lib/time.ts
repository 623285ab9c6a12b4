export const DAY_MS = 86_400_000;

/** A time in the API: ISO 8601, UTC, with milliseconds (W10). */
export const iso = (atMs: number): string => new Date(atMs).toISOString();

const RFC_3339 = /^\d{4}-\d{2}-\d{2}[Tt ]([01]\d|2[0-3]):\d{2}(:\d{2}(\.\d+)?)?([Zz]|[+-]\d{2}:\d{2})$/;

/** The times that RFC 3339 can write: in UTC, years of four digits. */
const WRITABLE_MS = { min: Date.parse("0000-01-01T00:00Z"), max: Date.parse("9999-12-31T23:59:59.999Z") };

/** The milliseconds since 1970 of an RFC 3339 timestamp with `Z` or an offset; seconds are optional. Null for other text. */
export function parseTimestamp(text: string): number | null {
  if (!RFC_3339.test(text)) return null;
  const [date, clock] = [text.slice(0, 10), text.slice(11).toUpperCase()];
  const atMs = Date.parse(`${date}T${clock}`);
  if (Number.isNaN(atMs) || atMs < WRITABLE_MS.min || atMs > WRITABLE_MS.max) return null;
  // Date.parse reads the 31st of a short month as a day of the next month.
  const isInMonth = new Date(Date.parse(`${date}T00:00Z`)).getUTCDate() === Number(date.slice(8));
  return isInMonth ? atMs : null;
}

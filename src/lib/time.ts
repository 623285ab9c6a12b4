export const MINUTE_MS = 60_000;
export const HOUR_MS = 3_600_000;
export const DAY_MS = 86_400_000;

/** The last day that `iso` wrote, and its text up to the `T`. Without this cache, `iso` would take four times as long. */
let cachedDay = Number.NaN;
let cachedDayText = "";
const twoDigits = (whole: number): string => (whole < 10 ? `0${whole}` : `${whole}`);

/** Returns a time as the API writes it: ISO 8601, UTC, with milliseconds (W10). `atMs` is a whole number. */
export function iso(atMs: number): string {
  const day = Math.floor(atMs / DAY_MS);
  if (day !== cachedDay) {
    cachedDayText = new Date(day * DAY_MS).toISOString().slice(0, -13);
    cachedDay = day;
  }
  const ms = atMs - day * DAY_MS;
  const seconds = Math.floor(ms / 1_000);
  const minutes = Math.floor(seconds / 60);
  const clock = `${twoDigits(Math.floor(minutes / 60))}:${twoDigits(minutes % 60)}:${twoDigits(seconds % 60)}`;
  return `${cachedDayText}${clock}.${String(1_000 + (ms % 1_000)).slice(1)}Z`;
}

const RFC_3339 = /^\d{4}-\d{2}-\d{2}[Tt ]([01]\d|2[0-3]):\d{2}(:\d{2}(\.\d+)?)?([Zz]|[+-]\d{2}:\d{2})$/;

/** The times that RFC 3339 can write: UTC, with four-digit years. */
const WRITABLE_MS = { min: Date.parse("0000-01-01T00:00Z"), max: Date.parse("9999-12-31T23:59:59.999Z") };

/**
 * Parses an RFC 3339 timestamp with `Z` or an offset to milliseconds since 1970; seconds are optional. Returns null for other
 * text.
 */
export function parseTimestamp(text: string): number | null {
  if (!RFC_3339.test(text)) return null;
  const [date, clock] = [text.slice(0, 10), text.slice(11).toUpperCase()];
  const atMs = Date.parse(`${date}T${clock}`);
  if (Number.isNaN(atMs) || atMs < WRITABLE_MS.min || atMs > WRITABLE_MS.max) return null;
  // Date.parse reads day 31 of a shorter month as a day of the next month.
  const isInMonth = new Date(Date.parse(`${date}T00:00Z`)).getUTCDate() === Number(date.slice(8));
  return isInMonth ? atMs : null;
}

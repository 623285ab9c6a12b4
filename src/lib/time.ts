export const DAY_MS = 86_400_000;

/** A time on the wire: ISO 8601, UTC, milliseconds (decisions.md, W10). */
export const iso = (atMs: number): string => new Date(atMs).toISOString();

const RFC_3339 = /^\d{4}-\d{2}-\d{2}[Tt ]([01]\d|2[0-3]):\d{2}(:\d{2}(\.\d+)?)?([Zz]|[+-]\d{2}:\d{2})$/;

/** Milliseconds since the epoch of an RFC 3339 timestamp with `Z` or an offset, seconds optional; else null. */
export function parseTimestamp(text: string): number | null {
  if (!RFC_3339.test(text)) return null;
  const [date, clock] = [text.slice(0, 10), text.slice(11).toUpperCase()];
  const atMs = Date.parse(`${date}T${clock}`);
  if (Number.isNaN(atMs)) return null;
  // Date.parse lets the 31st of a short month roll over into the next.
  const daysInMonth = new Date(Date.UTC(Number(date.slice(0, 4)), Number(date.slice(5, 7)), 0)).getUTCDate();
  return Number(date.slice(8)) <= daysInMonth ? atMs : null;
}

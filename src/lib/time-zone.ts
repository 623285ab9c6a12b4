import * as Instant from "temporal-polyfill/fns/Instant";
import * as PlainDateTime from "temporal-polyfill/fns/PlainDateTime";
import * as ZonedDateTime from "temporal-polyfill/fns/ZonedDateTime";

/** The time zone of a calendar (TZ1). */
export interface Zone {
  /** An IANA name, in any case. */
  readonly timeZone: string;
  /** Its last known offset, in force if the runtime does not know the name any more. */
  readonly utcOffsetMs: number;
}

export const UTC: Zone = { timeZone: "UTC", utcOffsetMs: 0 };

/** No IANA name is longer than 32 characters. The longer ones are not looked up. */
const NAME_LENGTH_MAX = 64;
/** An offset, such as `+01:00`, is not a name. */
const NAME = /^[A-Za-z][\w+/-]*$/;

const NS_PER_MS = 1_000_000;

/** The library keeps each text that it has read, so it gets every name in one case. */
const zonedAt = (timeZone: string, atMs: number) =>
  Instant.toZonedDateTimeISO(Instant.fromEpochMilliseconds(atMs), timeZone.toLowerCase());

/** Returns a zone's offset from UTC at a time. Null if the runtime does not know the zone. */
function knownOffsetMs(timeZone: string, atMs: number): number | null {
  try {
    return ZonedDateTime.offsetNanoseconds(zonedAt(timeZone, atMs)) / NS_PER_MS;
  } catch {
    return null;
  }
}

/** Returns whether a text is the name of a time zone that the runtime knows. Abbreviations such as `IST` are not names. */
export function isTimeZone(text: string): boolean {
  return text.length <= NAME_LENGTH_MAX && NAME.test(text) && knownOffsetMs(text, 0) !== null;
}

/** Returns a zone's offset from UTC at a time; the last known one if the runtime does not know the zone. */
export function offsetMsAt({ timeZone, utcOffsetMs }: Zone, atMs: number): number {
  return timeZone === UTC.timeZone ? 0 : (knownOffsetMs(timeZone, atMs) ?? utcOffsetMs);
}

/** Returns the local date and time, as the milliseconds since 1970 of the same date and time in UTC. */
export const toLocalMs = (zone: Zone, atMs: number): number => atMs + offsetMsAt(zone, atMs);

/**
 * Returns the time of a local date and time: the first of two if clocks go back over it, and the end of the gap if they skip it
 * (TZ2).
 */
export function fromLocalMs(zone: Zone, localMs: number): number {
  const { timeZone, utcOffsetMs } = zone;
  if (timeZone === UTC.timeZone) return localMs;
  const date = new Date(localMs);
  try {
    const local = PlainDateTime.create(
      ...([date.getUTCFullYear(), date.getUTCMonth() + 1, date.getUTCDate()] as const),
      ...([date.getUTCHours(), date.getUTCMinutes(), date.getUTCSeconds(), date.getUTCMilliseconds()] as const),
    );
    const earlier = PlainDateTime.toZonedDateTime(local, timeZone.toLowerCase(), { disambiguation: "earlier" });
    const isSkipped = earlier.epochMilliseconds + ZonedDateTime.offsetNanoseconds(earlier) / NS_PER_MS !== localMs;
    const afterGap = isSkipped ? ZonedDateTime.getTimeZoneTransition(earlier, "next") : null;
    return (afterGap ?? earlier).epochMilliseconds;
  } catch {
    return localMs - utcOffsetMs;
  }
}

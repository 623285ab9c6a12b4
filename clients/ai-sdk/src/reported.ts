import { type Meters, metersOf, metersOfAiSdk } from "purser-client/meters";

const sumOf = (meters: Meters): number => Object.values(meters).reduce((sum: number, tokens) => sum + tokens, 0);

/**
 * Returns the meters of the usage that the provider reported. Null if it reported none, or what does not add up. The provider's own
 * form (`raw`) also tells the lives of a cache and audio apart, and is taken where both have as many tokens.
 */
export function reportedMeters(usage: unknown): Meters | null {
  try {
    const reported = metersOfAiSdk(usage as object);
    // A prompt has tokens, so that a report of 0 is none.
    if (sumOf(reported) === 0) return null;
    const raw = rawMeters((usage as { raw?: unknown }).raw);
    return raw !== null && sumOf(raw) === sumOf(reported) ? raw : reported;
  } catch {
    return null;
  }
}

function rawMeters(raw: unknown): Meters | null {
  if (typeof raw !== "object" || raw === null) return null;
  try {
    return metersOf(raw);
  } catch {
    return null;
  }
}

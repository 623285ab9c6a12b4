/** The fields that the element reads of a limit from `GET /api/v1/usage/limits`. */
export interface Limit {
  readonly name: string;
  readonly unit: string;
  readonly every: "minute" | "hour" | "day" | "week" | "month";
  /** Null when the user has no limit. */
  readonly amount: number | null;
  readonly used: number;
  readonly resetsAt: string;
  /** Null for a minute and an hour. */
  readonly timeZone: string | null;
}

/** The fields that the element reads of a recurring grant from `GET /api/v1/credits/recurring`. */
export interface Recurring {
  readonly packName: string;
  readonly nextAt: string | null;
}

/** Returns the name of a zone's place, such as `New York`. Null for UTC and for windows without a zone. */
export const placeOf = (timeZone: string | null): string | null =>
  timeZone === null || timeZone === "UTC" ? null : (timeZone.split("/").at(-1) ?? timeZone).replaceAll("_", " ");

/** Returns the recurring grant whose next period begins first, and when; null when none begins. */
export function nextToBegin(recurring: readonly Recurring[]): { at: Date; packName: string } | null {
  const [first] = recurring
    .flatMap(({ packName, nextAt }) => (nextAt === null ? [] : [{ at: new Date(nextAt), packName }]))
    .sort((a, b) => a.at.getTime() - b.at.getTime());
  return first ?? null;
}

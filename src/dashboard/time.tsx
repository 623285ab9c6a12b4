import { createContext, useContext } from "hono/jsx";

/** The time of the page, from which its relative times count. */
export const NowContext = createContext(0);

let relative: Intl.RelativeTimeFormat | undefined;
let date: Intl.DateTimeFormat | undefined;

const TIME_UNITS = [
  [86_400_000, "day"],
  [3_600_000, "hour"],
  [60_000, "minute"],
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
  if (Math.abs(away) >= RELATIVE_DAYS_MAX * 86_400_000) return date.format(atMs);
  return relative.format(Math.trunc(away / size), unit);
}

/** Shows a moment relative to now, with the exact moment in UTC on hover. */
export const Time = ({ at, otherwise = "never" }: { at: string | null; otherwise?: string }) => {
  const nowMs = useContext(NowContext);
  if (at === null) return <span class="soft">{otherwise}</span>;
  return (
    <time datetime={at} title={`${at.slice(0, 19).replace("T", " ")} UTC`}>
      {nearText(Date.parse(at), nowMs)}
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

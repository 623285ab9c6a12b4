import { invalid } from "../../errors.ts";
import { timestamp } from "../../http/fields.ts";

const EARLIEST_MS = Date.UTC(2000, 0, 1);
const AHEAD_MS_MAX = 24 * 3_600_000;

/** When usage occurred (L5). */
export const occurredAt = timestamp
  .refine((atMs) => atMs >= EARLIEST_MS, "must not be before 2000-01-01T00:00:00Z")
  .meta({ format: "date-time" });

/** Throws `invalid_request` for usage that is more than a day ahead (L5). `param` is what the request calls its time. */
export function assertNotAhead(atMs: number | undefined, nowMs: number, param = "occurredAt"): void {
  if (atMs === undefined || atMs <= nowMs + AHEAD_MS_MAX) return;
  throw invalid(param, "must be at most a day ahead of this service's clock");
}

import { invalid } from "../errors.ts";
import { uuidOf } from "../lib/uuid.ts";
import type { CaptureOutput, CaptureV1Output } from "../people/responses.ts";
import type { TenantCtx } from "../runtime.ts";
import { type Arrival, type ReadEvent, readEvent } from "./event.ts";
import { storeEvents } from "./store-events.ts";
import type { CaptureRequest } from "./v0-request.ts";
import type { V1Request } from "./v1-request.ts";

const arrivalOf = (ctx: TenantCtx, sentAtMs: number | null): Arrival => ({
  nowMs: ctx.now(),
  sentAtMs,
  newUuid: () => uuidOf(ctx.newId("")),
});

const capturedOf = (read: readonly ReadEvent[]) => read.flatMap((event) => ("captured" in event ? event.captured : []));

/**
 * Stores the events of a v0 request. Malformed events are skipped and listed in the response. If all are malformed, throws
 * `invalid_request`, after which clients do not retry.
 */
export async function capture(ctx: TenantCtx, { events, sentAtMs }: CaptureRequest): Promise<CaptureOutput> {
  const arrival = arrivalOf(ctx, sentAtMs);
  const read = events.map((event) => readEvent(event, arrival));
  const refused = read.flatMap((event, index) => ("refused" in event ? { index, ...event.refused } : []));
  const [first] = refused;
  if (first !== undefined && refused.length === read.length) {
    throw invalid(
      [events.length > 1 ? `batch[${first.index}]` : "", first.param].filter(Boolean).join("."),
      first.message,
    );
  }
  await storeEvents(ctx, capturedOf(read));
  return { status: 1, ...(refused.length === 0 ? {} : { refused }) };
}

/** Stores the events of a v1 request. The result of each: stored, stored with a warning, or dropped as malformed. */
export async function captureV1(ctx: TenantCtx, { events, sentAtMs }: V1Request): Promise<CaptureV1Output> {
  const arrival = arrivalOf(ctx, sentAtMs);
  const read = events.map(({ event }) => readEvent(event, arrival));
  const warnings = await storeEvents(ctx, capturedOf(read));
  const results = events.map(({ uuid }, index) => [uuid, resultOf(read[index], warnings)] as const);
  // If two events have one UUID, the first is stored, and its result is returned.
  return { results: Object.fromEntries(results.toReversed()) };
}

type Result = CaptureV1Output["results"][string];

function resultOf(event: ReadEvent | undefined, warnings: ReadonlyMap<string, string>): Result {
  if (event === undefined) return { result: "drop" };
  if ("refused" in event) return { result: "drop", details: `${event.refused.param} ${event.refused.message}` };
  const details = event.warning ?? warnings.get(event.captured.uuid);
  return details === undefined ? { result: "ok" } : { result: "warning", details };
}

import { parseClientTime } from "./event-time.ts";
import { firstPresent } from "./fields.ts";
import { assertEvents, type ScannedBody } from "./scan-body.ts";

/** A request of PostHog's v0 protocol: `/batch/`, `/e/`, `/capture/` and others. */
export interface CaptureRequest {
  readonly body: ScannedBody;
  readonly sentAtMs: number | null;
}

const TIME_BYTES_MAX = 100;

/** `sentAtQuery` is the `_` of the query string, in milliseconds. Throws `invalid_request`, `payload_too_large`. */
export function readCaptureRequest(body: ScannedBody, sentAtQuery: string | undefined): CaptureRequest {
  assertEvents(body);
  const queried = sentAtQuery !== undefined && /^\d{1,15}$/.test(sentAtQuery) ? Number(sentAtQuery) : null;
  return { body, sentAtMs: sentAtOf(body, queried) };
}

/** The client's clock when it sent the request. */
function sentAtOf({ json, envelope }: ScannedBody, otherwise: number | null): number | null {
  const span = envelope === null ? undefined : firstPresent(json, envelope.fields, "sent_at");
  if (span === undefined || json.kindAt(span.start) !== "string") return otherwise;
  return span.end - span.start > TIME_BYTES_MAX ? null : parseClientTime(json.string(span));
}

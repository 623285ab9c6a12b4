import type { ElementResult } from "../../books/usage/record-list.ts";

import { errorStatus, presentRejection } from "../../errors.ts";
import { logUnavailable } from "../../http/error-responses.ts";
import { EXAMPLE } from "../common.ts";
import type { HandledRequest } from "../operation.ts";
import type { EventListOutput } from "./usage-shapes.ts";

const { eventId } = EXAMPLE;

export const exampleEvent = {
  eventId,
  userId: "user_42",
  event: "chat.completed",
  model: "large-2",
  quantities: { tokens: 120 },
  properties: { conversation: "c_17" },
};

export const exampleCloudEvent = {
  specversion: "1.0",
  id: "A234-1234-1234",
  source: "/meters/chat",
  type: "chat.completed",
  subject: "user_42",
  time: "2026-01-16T08:30:00Z",
  data: { model: "large-2", quantities: { tokens: 120 } },
};

/** The results of a list. Its status is 200; a 503 of one event is still logged, and gives the response a `Retry-After`. */
export function presentResults(
  results: readonly ElementResult[],
  { requestId, setHeader }: HandledRequest,
): EventListOutput {
  const rejections = results.flatMap((result) => ("rejection" in result ? [result.rejection] : []));
  const unavailable = rejections.find(({ code }) => errorStatus[code] === 503);
  if (unavailable !== undefined) {
    logUnavailable(unavailable, requestId);
    for (const [name, value] of Object.entries(unavailable.headers)) setHeader(name, value);
  }
  return {
    results: results.map((result) =>
      "rejection" in result
        ? { eventId: result.eventId, error: { ...presentRejection(result.rejection), requestId } }
        : result,
    ),
  };
}

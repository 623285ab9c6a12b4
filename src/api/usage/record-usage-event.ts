import { recordEvent } from "../../books/usage/record-event.ts";
import { recordList } from "../../books/usage/record-list.ts";

import { secretKey } from "../access.ts";
import { operation } from "../operation.ts";
import { elementsAt, eventAt, oneEvent } from "./event-body.ts";
import { exampleCloudEvent, exampleEvent, presentResults } from "./event-results.ts";
import { eventOutput, exampleDebits } from "./usage-shapes.ts";

export default operation({
  id: "recordUsageEvent",
  method: "post",
  path: "/api/v1/usage/events",
  tag: "Usage",
  access: secretKey(),
  body: oneEvent,
  errors: ["insufficient_credits", "price_not_found", "idempotency_conflict", "usage_limit_reached"],
  replayable: true,
  warns: true,
  writesForId: "rejected",
  idempotent: { field: "eventId" },
  ...(WITH_REFERENCE && {
    output: () => eventOutput,
    summary: "Record a usage event",
    description:
      "Records usage once for each `eventId`, and debits the balances that pay for it, in spending order. Each balance pays " +
      "the part of the event that it can, in its own unit. If credits are insufficient, `reject` records nothing (402; the " +
      "same id may be sent again) and `partial` debits what is available. A CloudEvent 1.0 is accepted as well: its `source` (with " +
      "`%` and `#` percent-encoded), `#` and `id` are the eventId, `subject` the userId, `type` the event, `time` occurredAt. Lists go to `/api/v1/usage/events/batch`; this path " +
      "takes them too.",
    returns: "The debits.",
    example: () => ({
      body: exampleEvent,
      bodies: { "application/cloudevents+json": exampleCloudEvent },
      output: exampleDebits,
    }),
  }),
  handler: async (ctx, { body }, request) => {
    if (body.kind === "one") return recordEvent(ctx, eventAt(body.event, ctx.now()));
    const results = await recordList(ctx, elementsAt(body.elements, ctx.now()));
    return request.respond(JSON.stringify(presentResults(results, request)), { "content-type": "application/json" });
  },
});

import { recordList } from "../../books/usage/record-list.ts";

import { secretKey } from "../access.ts";
import { operation } from "../operation.ts";
import { elementsAt, listOfEvents } from "./event-body.ts";
import { exampleCloudEvent, exampleEvent, presentResults } from "./event-results.ts";
import { eventListOutput, exampleDebits } from "./usage-shapes.ts";

export default operation({
  id: "recordUsageEvents",
  method: "post",
  path: "/api/v1/usage/events/batch",
  tag: "Usage",
  access: secretKey(),
  body: listOfEvents,
  warns: true,
  headers: {
    "retry-after": "When an event has the error `temporarily_unavailable`: seconds to wait before sending it again.",
  },
  idempotent: { field: "eventId" },
  ...(WITH_REFERENCE && {
    output: () => eventListOutput,
    summary: "Record a list of usage events",
    description:
      "Up to 100 events as a bare list. Each event, even a malformed one, succeeds or fails separately, as with " +
      "`recordUsageEvent`. The response is 200 with a result for each. Events of one user are recorded in the order of " +
      "the list.",
    returns: "The result or the error of each event, in order.",
    example: () => ({
      body: [exampleEvent],
      bodies: { "application/cloudevents-batch+json": [exampleCloudEvent] },
      output: { results: [exampleDebits] },
    }),
  }),
  handler: async (ctx, { body }, request) =>
    presentResults(await recordList(ctx, elementsAt(body, ctx.now())), request),
});

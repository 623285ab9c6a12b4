import { countEvents } from "../../auth/arrivals.ts";
import { callVerb } from "../../http/factory.ts";
import { captureV1 } from "../../people/capture/capture.ts";
import { readV1Request } from "../../people/capture/event-request.ts";
import { captureV1Output } from "../../people/responses.ts";
import { analyticsKey } from "../access.ts";
import { Unread } from "../body.ts";
import { operation } from "../operation.ts";
import { ClientBody } from "./client-body.ts";
import { captureV1Batch, exampleAnalyticsEvent, uuid } from "./shapes.ts";

export default operation({
  id: "captureEventsV1",
  method: "post",
  path: "/i/v1/analytics/events",
  maySlash: true,
  tag: "Analytics",
  access: analyticsKey,
  body: new Unread(() => captureV1Batch),
  output: () => captureV1Output,
  warns: true,
  writesForId: "silent",
  summary: "Store analytics events (v1)",
  description: "Stores the events of PostHog's newer clients, which send the key in the header `Authorization`.",
  returns: "The result of each event, by its UUID.",
  example: () => ({
    body: { batch: [{ uuid, ...exampleAnalyticsEvent }] },
    output: { results: { [uuid]: { result: "ok" } } },
  }),
  handler: async (c) => {
    const request = readV1Request(await new ClientBody(c).parse(), {
      sdkInfo: c.req.header("posthog-sdk-info"),
      requestTimestamp: c.req.header("posthog-request-timestamp"),
    });
    await countEvents(c, request.body.events.length);
    return callVerb(c, (ctx) => captureV1(ctx, request));
  },
});

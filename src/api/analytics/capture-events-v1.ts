import * as z from "zod";
import { countEvents } from "../../auth/arrivals.ts";
import { callVerb } from "../../http/factory.ts";
import { captureV1 } from "../../people/capture/capture.ts";
import { readV1Request } from "../../people/capture/event-request.ts";
import { analyticsKey } from "../access.ts";
import { Unread } from "../body-by-type.ts";
import { operation } from "../operation.ts";
import { eventFields, exampleAnalyticsEvent } from "./analytics-shapes.ts";
import { ClientBody } from "./client-body.ts";

const captureV1Event = z.lazy(() =>
  z
    .looseObject({ ...eventFields(), uuid: z.string().describe("The event's UUID. The result has it as its key.") })
    .meta({ id: "CaptureV1Event" }),
);

const captureV1Batch = z.lazy(() => z.looseObject({ batch: z.array(captureV1Event) }).meta({ id: "CaptureV1Batch" }));

const uuid = "0194685f-8a3c-7d11-9f2b-6c1d2e3f4a5b";

/** The response of the v1 capture route: a result for each event, by its UUID as it was sent. */
const captureV1Output = z.lazy(() =>
  z
    .strictObject({
      results: z.record(
        z.string(),
        z
          .strictObject({ result: z.enum(["ok", "warning", "drop"]), details: z.string().optional() })
          .meta({ id: "CaptureV1EventResult" }),
      ),
    })
    .meta({ id: "CaptureV1Result" }),
);

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

import * as z from "zod";
import { countEvents } from "../../auth/arrivals.ts";
import { callVerb } from "../../http/factory.ts";
import { lazy } from "../../http/lazy.ts";
import { words } from "../../lib/words.ts";
import { captureV1 } from "../../people/capture/capture.ts";
import { readV1Request } from "../../people/capture/event-request.ts";
import { analyticsKey } from "../access.ts";
import { Unread } from "../body-by-type.ts";
import { incomingOf } from "../enter.ts";
import { operation } from "../operation.ts";
import { eventFields, exampleAnalyticsEvent } from "./analytics-shapes.ts";
import { ClientBody } from "./client-body.ts";

const captureV1Event = lazy(() =>
  z
    .looseObject({
      ...eventFields(),
      uuid: z
        .string()
        .meta(words("The event's UUID. The result has it as its key.", "0194685f-8a3c-7d11-9f2b-6c1d2e3f4a5b")),
    })
    .meta({ id: "CaptureV1Event" }),
);

const captureV1Batch = lazy(() =>
  z.looseObject({ batch: z.array(captureV1Event).meta(words("The events.")) }).meta({ id: "CaptureV1Batch" }),
);

const uuid = "0194685f-8a3c-7d11-9f2b-6c1d2e3f4a5b";

/** The response of the v1 capture route: a result for each event, by its UUID as it was sent. */
const captureV1Output = /* @__PURE__ */ lazy(() =>
  z
    .strictObject({
      results: z
        .record(
          z.string(),
          z
            .strictObject({
              result: z.enum(["ok", "warning", "drop"]).meta(words("What became of the event.", "ok")),
              details: z.string().optional().meta(words("Details. They depend on the code.", "malformed")),
            })
            .meta({ id: "CaptureV1EventResult" }),
        )
        .meta(
          words("The result of each event, by its UUID.", { "0194685f-8a3c-7d11-9f2b-6c1d2e3f4a5b": { result: "ok" } }),
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
  warns: true,
  writesForId: "silent",
  ...(WITH_REFERENCE && {
    output: () => captureV1Output,
    summary: "Store analytics events (v1)",
    description: "Stores the events of PostHog's newer clients, which send the key in the header `Authorization`.",
    returns: "The result of each event, by its UUID.",
    example: () => ({
      body: { batch: [{ uuid, ...exampleAnalyticsEvent }] },
      output: { results: { [uuid]: { result: "ok" } } },
    }),
  }),
  handler: async (c) => {
    const request = readV1Request(await new ClientBody(c).parse(), {
      sdkInfo: c.req.header("posthog-sdk-info"),
      requestTimestamp: c.req.header("posthog-request-timestamp"),
    });
    await countEvents(incomingOf(c), c.var.ctx.caller, request.body.events.length);
    return callVerb(c, (ctx) => captureV1(ctx, request));
  },
});

import * as z from "zod";
import { countEvents } from "../../auth/arrivals.ts";
import { serveCaptureKey } from "../../auth/require-key.ts";
import { callVerb } from "../../http/factory.ts";
import { capture } from "../../people/capture/capture.ts";
import { readCaptureRequest } from "../../people/capture/event-request.ts";

import { keyInside } from "../access.ts";
import { Unread } from "../body-by-type.ts";
import { operation } from "../operation.ts";
import { apiKey, eventFields, exampleAnalyticsEvent, publishableKey } from "./analytics-shapes.ts";
import { ClientBody } from "./client-body.ts";

const captureEvent = z.lazy(() => z.looseObject(eventFields()).meta({ id: "CaptureEvent" }));

const captureOneEvent = z.lazy(() =>
  z.looseObject({ api_key: apiKey.optional(), ...eventFields() }).meta({ id: "CaptureOneEvent" }),
);

const captureBatch = z.lazy(() =>
  z
    .looseObject({
      api_key: apiKey.optional(),
      batch: z.array(captureEvent),
      sent_at: z.string().optional().describe("The client's clock when it sent the request."),
    })
    .meta({ id: "CaptureBatch" }),
);

/** The response of the v0 capture routes. Events that are not in `refused` are stored. */
const captureOutput = z.lazy(() =>
  z
    .strictObject({
      status: z.literal(1),
      quota_limited: z
        .array(z.literal("events"))
        .optional()
        .describe("Present if events were not stored because a daily limit is reached."),
      refused: z
        .array(z.strictObject({ index: z.int(), param: z.string(), message: z.string() }).meta({ id: "RefusedEvent" }))
        .optional()
        .describe("The malformed events of the batch, which were not stored."),
    })
    .meta({ id: "CaptureResult" }),
);

export default operation({
  id: "captureEvents",
  method: "post",
  path: "/batch",
  aliases: ["/e", "/i/v0/e", "/capture", "/track"],
  maySlash: true,
  tag: "Analytics",
  access: keyInside,
  body: new Unread(() =>
    z.union([captureBatch, captureOneEvent, z.array(captureEvent)]).meta({ id: "CaptureRequest" }),
  ),
  output: () => captureOutput,
  warns: true,
  writesForId: "silent",
  summary: "Store analytics events",
  description:
    "Stores the events of PostHog's clients. Each of the paths for these clients may end with a slash. The key is " +
    "in the header `Authorization`, or in the body as `api_key`; the header takes precedence. A body is a batch, " +
    "one event or a list of events; it may be compressed with gzip and encoded in base64. An event is stored once " +
    "for each `uuid`. Malformed events are listed in `refused`.",
  returns: "The events are stored.",
  example: () => ({ body: { api_key: publishableKey, batch: [exampleAnalyticsEvent] }, output: { status: 1 } }),
  handler: (c) => {
    const body = new ClientBody(c);
    return serveCaptureKey(
      c,
      () => body.key(),
      async () => {
        const request = readCaptureRequest(await body.parse(), c.req.query("_"));
        await countEvents(c, request.body.events.length);
        return callVerb(c, (ctx) => capture(ctx, request));
      },
    );
  },
});

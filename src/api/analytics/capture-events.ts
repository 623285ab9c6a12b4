import * as z from "zod";
import { countEvents } from "../../auth/arrivals.ts";
import { callVerb } from "../../http/factory.ts";
import { lazy } from "../../http/lazy.ts";
import { words } from "../../lib/words.ts";
import { capture } from "../../people/capture/capture.ts";
import { readCaptureRequest } from "../../people/capture/event-request.ts";

import { keyInside } from "../access.ts";
import { Unread } from "../body-by-type.ts";
import { incomingOf, serveCaptureKey } from "../enter.ts";
import { operation } from "../operation.ts";
import { apiKey, eventFields, exampleAnalyticsEvent, publishableKey } from "./analytics-shapes.ts";
import { ClientBody } from "./client-body.ts";

const captureEvent = lazy(() => z.looseObject(eventFields()).meta({ id: "CaptureEvent" }));

const captureOneEvent = lazy(() =>
  z
    .looseObject({
      api_key: apiKey
        .optional()
        .meta(
          words(
            "A key of Purser: publishable in a browser or an app, relay in a service that forwards data of others, secret on a server.",
            "pk_live_6nPz0vQ4tH8kXw2yBc5mAbCd",
          ),
        ),
      ...eventFields(),
    })
    .meta({ id: "CaptureOneEvent" }),
);

const captureBatch = lazy(() =>
  z
    .looseObject({
      api_key: apiKey
        .optional()
        .meta(
          words(
            "A key of Purser: publishable in a browser or an app, relay in a service that forwards data of others, secret on a server.",
            "pk_live_6nPz0vQ4tH8kXw2yBc5mAbCd",
          ),
        ),
      batch: z.array(captureEvent).meta(words("The events.")),
      sent_at: z
        .string()
        .optional()
        .meta(words("The client's clock when it sent the request.", "2026-01-16T08:30:00.000Z")),
    })
    .meta({ id: "CaptureBatch" }),
);

/** The response of the v0 capture routes. Events that are not in `rejected` are stored. */
const captureOutput = /* @__PURE__ */ lazy(() =>
  z
    .strictObject({
      status: z.literal(1).meta(words("The status.")),
      quota_limited: z
        .array(z.literal("events"))
        .optional()
        .meta(words("Present if events were not stored because a daily limit is reached.", ["events"])),
      refused: z
        .array(
          z
            .strictObject({
              index: z.int().meta(words("The position in the batch, from 0.", 0)),
              param: z.string().meta(words("The wrong argument.", "items[0].amount")),
              message: z.string().meta(words("The text for people.", "must not be empty")),
            })
            .meta({ id: "RefusedEvent" }),
        )
        .optional()
        .meta(words("The malformed events of the batch, which were not stored.")),
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
  warns: true,
  writesForId: "silent",
  ...(WITH_REFERENCE && {
    output: () => captureOutput,
    summary: "Store analytics events",
    description:
      "Stores the events of PostHog's clients. Each of the paths for these clients may end with a slash. The key is " +
      "in the header `Authorization`, or in the body as `api_key`; the header takes precedence. A body is a batch, " +
      "one event or a list of events; it may be compressed with gzip and encoded in base64. An event is stored once " +
      "for each `uuid`. Malformed events are listed in `refused`.",
    returns: "The events are stored.",
    example: () => ({ body: { api_key: publishableKey, batch: [exampleAnalyticsEvent] }, output: { status: 1 } }),
  }),
  handler: (c) => {
    const body = new ClientBody(c);
    return serveCaptureKey(
      c,
      () => body.key(),
      async () => {
        const request = readCaptureRequest(await body.parse(), c.req.query("_"));
        await countEvents(incomingOf(c), c.var.ctx.caller, request.body.events.length);
        return callVerb(c, (ctx) => capture(ctx, request));
      },
    );
  },
});

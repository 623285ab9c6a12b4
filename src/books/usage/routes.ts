import type { Context } from "hono";
import * as z from "zod";
import { declareUser } from "../../auth/end-user.ts";
import { requireAdmin } from "../../auth/require-admin.ts";
import { requireKeyOrEndUser, requireSecretKey } from "../../auth/require-key.ts";
import { assert, errorStatus, presentRefusal } from "../../errors.ts";
import { readBody, readNoFields } from "../../http/body.ts";
import { logUnavailable } from "../../http/errors.ts";
import { type AppEnv, answerOutcome, callVerb, createRoutes } from "../../http/factory.ts";
import { noFields } from "../../http/fields.ts";
import { validate } from "../../http/validate.ts";
import { commitReservation, extendReservation, releaseReservation } from "./commit.ts";
import { readEnvironmentUsage } from "./environment-usage.ts";
import { readEventList, readEventRequest } from "./event-request.ts";
import { listEvents, readUsageEventById } from "./list-events.ts";
import { planUsage } from "./plan.ts";
import { recordEvent } from "./record-event.ts";
import { type ElementResult, recordList } from "./record-list.ts";
import { listReservations, readReservation } from "./reservations.ts";
import { createReservation } from "./reserve.ts";
import type { EventListOutput } from "./responses.ts";
import {
  commitInput,
  environmentUsageInput,
  eventsInput,
  extendInput,
  planInput,
  reservationParams,
  reservationsInput,
  reserveInput,
  totalsInput,
} from "./schemas.ts";
import { readUsageTotals } from "./totals.ts";

/** `POST /api/v1/credits/plan`. */
export const planRoutes = createRoutes().post(
  "/plan",
  requireSecretKey("forbidden", { reads: true }),
  readBody,
  validate("json", planInput),
  async (c) => c.json(await callVerb(c, (ctx) => planUsage(ctx, c.req.valid("json")))),
);

/** The results of a list. Its status is 200; a 503 of one event is still logged, and gives the response a `Retry-After`. */
function answerList(c: Context<AppEnv>, results: readonly ElementResult[]): EventListOutput {
  const refusals = results.flatMap((result) => ("refusal" in result ? [result.refusal] : []));
  const unavailable = refusals.find(({ code }) => errorStatus[code] === 503);
  if (unavailable !== undefined) {
    logUnavailable(unavailable, c.get("requestId"));
    for (const [name, value] of Object.entries(unavailable.headers)) c.header(name, value);
  }
  return {
    results: results.map((result) =>
      "refusal" in result
        ? { eventId: result.eventId, error: { ...presentRefusal(result.refusal), requestId: c.get("requestId") } }
        : result,
    ),
  };
}

export const usageRoutes = createRoutes()
  .get("/", requireKeyOrEndUser(), validate("query", totalsInput), async (c) => {
    const input = c.req.valid("query");
    declareUser(c, "userId", input.userId);
    return c.json(await callVerb(c, (ctx) => readUsageTotals(ctx, input)));
  })
  .get("/events", requireKeyOrEndUser(["eventId"]), validate("query", eventsInput), async (c) => {
    const { userId, eventId, ...page } = c.req.valid("query");
    if (eventId !== undefined) return c.json(await callVerb(c, (ctx) => readUsageEventById(ctx, eventId)));
    assert(userId !== undefined, "a query names a user or an event");
    declareUser(c, "userId", userId);
    return c.json(await callVerb(c, (ctx) => listEvents(ctx, { ...page, userId })));
  })
  .post("/events", requireSecretKey("forbidden"), readBody, validate("json", z.unknown()), async (c) => {
    const [type, sent] = [c.req.header("content-type"), c.req.valid("json")];
    const outcome = await callVerb(c, async (ctx) => {
      const incoming = readEventRequest(type, sent, ctx.now());
      return incoming.kind === "one"
        ? await recordEvent(ctx, incoming.input)
        : await recordList(ctx, incoming.elements);
    });
    return "output" in outcome ? answerOutcome(c, outcome) : c.json(answerList(c, outcome));
  })
  .post("/events/batch", requireSecretKey("forbidden"), readBody, validate("json", z.unknown()), async (c) => {
    const [type, sent] = [c.req.header("content-type"), c.req.valid("json")];
    return c.json(answerList(c, await callVerb(c, (ctx) => recordList(ctx, readEventList(type, sent, ctx.now())))));
  })
  .post("/reservations", requireSecretKey("forbidden"), readBody, validate("json", reserveInput), async (c) =>
    answerOutcome(c, await callVerb(c, (ctx) => createReservation(ctx, c.req.valid("json")))),
  )
  .get("/reservations", requireSecretKey("requires_secret_key"), validate("query", reservationsInput), async (c) =>
    c.json(await callVerb(c, (ctx) => listReservations(ctx, c.req.valid("query")))),
  )
  .get(
    "/reservations/:reservationId",
    requireSecretKey("requires_secret_key"),
    validate("param", reservationParams),
    async (c) => c.json(await callVerb(c, (ctx) => readReservation(ctx, c.req.valid("param").reservationId))),
  )
  .post(
    "/reservations/:reservationId/commit",
    requireSecretKey("forbidden"),
    readBody,
    validate("param", reservationParams),
    validate("json", commitInput),
    async (c) =>
      answerOutcome(
        c,
        await callVerb(c, (ctx) => commitReservation(ctx, c.req.valid("param").reservationId, c.req.valid("json"))),
      ),
  )
  .post(
    "/reservations/:reservationId/extend",
    requireSecretKey("forbidden"),
    readBody,
    validate("param", reservationParams),
    validate("json", extendInput),
    async (c) =>
      c.json(
        await callVerb(c, (ctx) => extendReservation(ctx, c.req.valid("param").reservationId, c.req.valid("json"))),
      ),
  )
  .post(
    "/reservations/:reservationId/release",
    requireSecretKey("forbidden"),
    readNoFields,
    validate("param", reservationParams),
    validate("json", noFields),
    async (c) => c.json(await callVerb(c, (ctx) => releaseReservation(ctx, c.req.valid("param").reservationId))),
  );

/** Administration routes of usage. */
export const environmentUsageRoutes = createRoutes().get(
  "/apps/:appId/usage",
  requireAdmin,
  validate("query", environmentUsageInput),
  async (c) => c.json(await readEnvironmentUsage(c.var.admin, c.req.param("appId"), c.req.valid("query"))),
);

import { declareUser } from "../../auth/end-user.ts";
import { requireKeyOrEndUser, requireSecretKey } from "../../auth/require-key.ts";
import { readBody, readNoFields } from "../../http/body.ts";
import { answerOutcome, callVerb, createRoutes } from "../../http/factory.ts";
import { validate } from "../../http/validate.ts";
import { cancelRecurring, resumeRecurring } from "./change.ts";
import { createRecurring } from "./create.ts";
import { listRecurring } from "./recurring.ts";
import {
  cancelRecurringInput,
  createRecurringInput,
  listRecurringInput,
  recurringParams,
  resumeRecurringInput,
} from "./schemas.ts";

export const recurringRoutes = createRoutes()
  .post("/", requireSecretKey("forbidden"), readBody, validate("json", createRecurringInput), async (c) =>
    answerOutcome(c, await callVerb(c, (ctx) => createRecurring(ctx, c.req.valid("json")))),
  )
  .get("/", requireKeyOrEndUser([]), validate("query", listRecurringInput), async (c) => {
    const input = c.req.valid("query");
    declareUser(c, "userId", input.userId);
    return c.json(await callVerb(c, (ctx) => listRecurring(ctx, input)));
  })
  .post(
    "/:recurringId/cancel",
    requireSecretKey("forbidden"),
    readBody,
    validate("param", recurringParams),
    validate("json", cancelRecurringInput),
    async (c) =>
      c.json(await callVerb(c, (ctx) => cancelRecurring(ctx, c.req.valid("param").recurringId, c.req.valid("json")))),
  )
  .post(
    "/:recurringId/resume",
    requireSecretKey("forbidden"),
    readNoFields,
    validate("param", recurringParams),
    validate("json", resumeRecurringInput),
    async (c) =>
      c.json(await callVerb(c, (ctx) => resumeRecurring(ctx, c.req.valid("param").recurringId, c.req.valid("json")))),
  );

import { requireAdmin } from "../auth/require-admin.ts";
import { requireSecretKey } from "../auth/require-key.ts";
import { readBody } from "../http/body.ts";
import { answerOutcome, callVerb, createRoutes } from "../http/factory.ts";
import { noFields } from "../http/fields.ts";
import { validate } from "../http/validate.ts";
import { erasePerson } from "./erase-person.ts";
import { forgetTombstones, liftErasure } from "./lift.ts";
import { readErasure } from "./receipt.ts";
import { erasePersonInput, forgetTombstonesInput } from "./schemas.ts";

export const erasureRoutes = createRoutes()
  .post("/erase-person", requireSecretKey("forbidden"), readBody, validate("json", erasePersonInput), async (c) =>
    answerOutcome(c, await callVerb(c, (ctx) => erasePerson(ctx, c.req.valid("json")))),
  )
  .get("/erasures/:erasureId", requireSecretKey("requires_secret_key"), async (c) =>
    c.json(await callVerb(c, (ctx) => readErasure(ctx, c.req.param("erasureId")))),
  )
  .post("/erasures/:erasureId/lift", requireSecretKey("forbidden"), readBody, validate("json", noFields), async (c) =>
    c.json(await callVerb(c, (ctx) => liftErasure(ctx, c.req.param("erasureId")))),
  );

/** Administration routes of erasures. */
export const tombstoneRoutes = createRoutes().post(
  "/apps/:appId/tombstones/forget",
  requireAdmin,
  readBody,
  validate("json", forgetTombstonesInput),
  async (c) => c.json(await forgetTombstones(c.var.admin, c.req.param("appId"), c.req.valid("json"))),
);

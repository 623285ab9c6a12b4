import { askAbout } from "../auth/end-user.ts";
import { requireKeyOrEndUser } from "../auth/require-key.ts";
import { readBody } from "../http/body.ts";
import { callVerb, createRoutes } from "../http/factory.ts";
import { validate } from "../http/validate.ts";
import { recordConsent } from "./consent.ts";
import { consentInput } from "./schemas.ts";

export const consentRoutes = createRoutes().post(
  "/",
  requireKeyOrEndUser(),
  readBody,
  validate("json", consentInput),
  async (c) => {
    const input = c.req.valid("json");
    askAbout(c, "distinctId", input.distinctId);
    return c.json(await callVerb(c, (ctx) => recordConsent(ctx, input)));
  },
);

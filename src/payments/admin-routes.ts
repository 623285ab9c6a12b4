import { requireAdmin } from "../auth/require-admin.ts";
import { readBody } from "../http/body.ts";
import { answerOutcome, createRoutes } from "../http/factory.ts";
import { validate } from "../http/validate.ts";
import { listPayments } from "./list.ts";
import { listPaymentsInput, readStripeInput, setStripeInput, settlePaymentInput } from "./schemas.ts";
import { settlePayment } from "./settle.ts";
import { readStripe, setStripe } from "./stripe-setting.ts";

/** Administration of this room. */
export const paymentRoutes = createRoutes()
  .put("/apps/:appId/stripe", requireAdmin, readBody, validate("json", setStripeInput), async (c) =>
    c.json(await setStripe(c.var.admin, c.req.param("appId"), c.req.valid("json"))),
  )
  .get("/apps/:appId/stripe", requireAdmin, validate("query", readStripeInput), async (c) =>
    c.json(await readStripe(c.var.admin, c.req.param("appId"), c.req.valid("query").mode)),
  )
  .get("/apps/:appId/payments", requireAdmin, validate("query", listPaymentsInput), async (c) =>
    c.json(await listPayments(c.var.admin, c.req.param("appId"), c.req.valid("query"))),
  )
  .post(
    "/apps/:appId/payments/:paymentKey/settle",
    requireAdmin,
    readBody,
    validate("json", settlePaymentInput),
    async (c) => {
      const { appId, paymentKey } = c.req.param();
      return answerOutcome(c, await settlePayment(c.var.admin, appId, paymentKey, c.req.valid("json")));
    },
  );

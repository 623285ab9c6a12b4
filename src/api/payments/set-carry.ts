import * as z from "zod";
import { anyNumber, identifier, mode } from "../../http/fields.ts";
import { lazy } from "../../http/lazy.ts";
import { words } from "../../lib/words.ts";
import { CARRY_MAX } from "../../payments/carry.ts";
import { setCarry } from "../../payments/change-carry.ts";
import { administration } from "../access.ts";
import { appParams } from "../common.ts";
import { operation } from "../operation.ts";
import { currency, setCarryOutput } from "./payment-shapes.ts";

export const setCarryInput = lazy(() =>
  z
    .strictObject({
      mode,
      customer: identifier().meta(
        words("The customer's id at Stripe, `cus_…`, or the key that a list of carries shows.", "cus_9s6XKzkNRiz8i3"),
      ),
      currency,
      // A number that a double does not represent exactly becomes infinite.
      amount: anyNumber
        .refine(
          (amount: number) => Number.isInteger(amount) && amount >= 0 && amount <= CARRY_MAX,
          `must be a whole number from 0 to ${CARRY_MAX}, in the currency's smallest unit`,
        )
        .meta({ type: "integer" })
        .meta(words("The new carry, in the currency's smallest unit.", 0)),
    })
    .meta({ id: "SetCarry" }),
);

export default operation({
  id: "setCarry",
  method: "post",
  path: "/api/v1/admin/apps/{appId}/payments/carry",
  tag: "Administration",
  access: administration("grants", "argument"),
  params: appParams,
  body: setCarryInput,
  idempotent: true,
  ...(WITH_REFERENCE && {
    output: () => setCarryOutput,
    summary: "Set the carry of a Stripe customer",
    description:
      "The carry is the money that a customer's invoices returned for a plan, and that has not paid for another plan yet. " +
      "The next invoices grant that much less. Set it if Stripe's own balance of the customer differs, for example " +
      "because you paid it out. `listPayments` shows it with a `userId`.",
    returns: "The carry.",
    example: () => ({
      body: { mode: "live", customer: "cus_9s6XKzkNRiz8i3", currency: "usd", amount: 0 },
      output: { customer: "cus_9s6XKzkNRiz8i3", currency: "usd", amount: 0 },
    }),
  }),
  handler: (admin, { params, body }) => setCarry(admin, params.appId, body),
});

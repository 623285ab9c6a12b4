import { setCarryOutput } from "../../payments/responses.ts";
import { setCarryInput } from "../../payments/schemas.ts";
import { setCarry } from "../../payments/set-carry.ts";
import { administration } from "../access.ts";
import { appParams } from "../common.ts";
import { operation } from "../operation.ts";

export default operation({
  id: "setCarry",
  method: "post",
  path: "/api/v1/admin/apps/{appId}/payments/carry",
  tag: "Administration",
  access: administration("grants", "argument"),
  params: appParams,
  body: setCarryInput,
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
  handler: (admin, { params, body }) => setCarry(admin, params.appId, body),
});

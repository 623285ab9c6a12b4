import * as z from "zod";
import { createAlert } from "../../books/alerts/alerts.ts";
import { amountRule, toMinor } from "../../books/amounts/amount.ts";
import { unit } from "../../books/amounts/amount-fields.ts";
import { displayName, identifier, mode } from "../../http/fields.ts";
import { lazy } from "../../http/lazy.ts";
import { BELOW } from "../../http/wrong-names.ts";
import { words } from "../../lib/words.ts";
import { administration } from "../access.ts";
import { appParams } from "../common.ts";
import { operation } from "../operation.ts";
import { alertOutput, below, checkBelow, exampleAlert, exampleNewAlert } from "./alert-shapes.ts";

const newAlertInput = () =>
  z.strictObject({
    mode,
    name: displayName().meta(words("The name, for people.", "Backend")),
    unit,
    event: identifier()
      .optional()
      .meta(
        words(
          "A name or a glob: only balances that cover it are watched, as in the filter of a list. Default: all.",
          "chat.completed",
        ),
      ),
    below: below.meta(words("The alert fires when less than this remains.")),
  });

function checkNewAlert(
  { unit, below }: z.infer<ReturnType<typeof newAlertInput>>,
  context: z.core.$RefinementCtx,
): void {
  checkBelow(below, context, ["below"]);
  if (below.amount === undefined || !(below.amount > 0) || toMinor(unit, below.amount) !== null) return;
  context.addIssue({ code: "custom", path: ["below", "amount"], message: amountRule(unit, below.amount) });
}

export const createAlertInput = lazy(() =>
  newAlertInput()
    .superRefine(checkNewAlert)
    .meta({
      id: "CreateAlert",
      wrongNames: { mode: "environment env", name: "title label", event: "match matches", below: BELOW },
    }),
);

export default operation({
  id: "createAlert",
  method: "post",
  path: "/api/v1/admin/apps/{appId}/alerts",
  tag: "Administration",
  access: administration("write", "argument"),
  params: appParams,
  body: createAlertInput,
  warns: true,
  ...(WITH_REFERENCE && {
    output: () => alertOutput,
    summary: "Create an alert",
    description:
      "Creates an alert in one mode, which may have at most 20. The alert sends `credits.low` when a debit, commit, " +
      "refund, revoke, adjustment or expiry lowers a user's active balances in the unit, including holds, below the " +
      "threshold. It fires again only after a grant, a restored payment or an adjustment has raised them to the " +
      "threshold.",
    returns: "The alert.",
    example: () => ({ body: exampleNewAlert, output: exampleAlert }),
  }),
  handler: (admin, { params, body }) => createAlert(admin, params.appId, body),
});

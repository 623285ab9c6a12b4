import * as z from "zod";
import { changeAlert } from "../../books/alerts/update-alert.ts";
import { displayName, identifier } from "../../http/fields.ts";
import { lazy } from "../../http/lazy.ts";
import { BELOW } from "../../http/wrong-names.ts";
import { words } from "../../lib/words.ts";
import { administrationOfRow } from "../access.ts";
import { operation } from "../operation.ts";
import { alertOutput, alertParams, below, checkBelow, exampleAlert, loadAlert } from "./alert-shapes.ts";

export const changeAlertInput = lazy(() =>
  z
    .strictObject({
      name: displayName().optional().meta(words("The name, for people.", "Backend")),
      event: identifier().nullish().meta(words("Null: every balance of the unit is watched.", "chat.completed")),
      below: below
        .superRefine((value, context) => checkBelow(value, context))
        .optional()
        .meta(words("The threshold: the alert fires when less than this remains.")),
    })
    .meta({ id: "ChangeAlert", wrongNames: { name: "title label", event: "match matches", below: BELOW } }),
);

export default operation({
  id: "changeAlert",
  method: "patch",
  path: "/api/v1/admin/apps/{appId}/alerts/{alertId}",
  tag: "Administration",
  access: administrationOfRow("write", loadAlert),
  params: alertParams,
  body: changeAlertInput,
  warns: true,
  ...(WITH_REFERENCE && {
    output: () => alertOutput,
    summary: "Change an alert",
    description:
      "Changes the fields that you send; the unit cannot change. The alert starts again like a new one, so it may " +
      "fire again for users for whom it has fired before.",
    returns: "The alert.",
    example: () => ({ body: { below: { percent: 10 } }, output: { ...exampleAlert, below: { percent: 10 } } }),
  }),
  handler: ({ admin, row }, { body }) => changeAlert(admin, row, body),
});

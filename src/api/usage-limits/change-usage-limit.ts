import * as z from "zod";
import { changeLimit } from "../../books/limits/update-limit.ts";
import { lazy } from "../../http/lazy.ts";
import { words } from "../../lib/words.ts";
import { administrationOfRow } from "../access.ts";
import { operation } from "../operation.ts";
import {
  amountOfWindow,
  exampleLimit,
  limitName,
  loadLimit,
  usageLimitOutput,
  usageLimitParams,
} from "./usage-limit-shapes.ts";

export const changeLimitInput = lazy(() =>
  z
    .strictObject({
      name: limitName()
        .optional()
        .meta(words("Unique among the limits of the mode. Letter case does not matter.", "Backend")),
      amount: amountOfWindow()
        .optional()
        .meta(words("The amount that a user may use in a window, in the limit's unit; 0 or more.", 60)),
    })
    .meta({ id: "ChangeUsageLimit" }),
);

export default operation({
  id: "changeUsageLimit",
  method: "patch",
  path: "/api/v1/admin/apps/{appId}/usage-limits/{limitId}",
  tag: "Administration",
  access: administrationOfRow("write", loadLimit),
  params: usageLimitParams,
  body: changeLimitInput,
  ...(WITH_REFERENCE && {
    output: () => usageLimitOutput,
    summary: "Change a usage limit",
    description: "Changes the fields that you send. After a change of the amount, the used amount stays.",
    returns: "The limit.",
    example: () => ({ body: { amount: 60 }, output: { ...exampleLimit, amount: 60 } }),
  }),
  handler: ({ admin, row }, { body }) => changeLimit(admin, row, body),
});

import * as z from "zod";
import { changeLimit } from "../../books/limits/update-limit.ts";
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

export const changeLimitInput = z.lazy(() =>
  z
    .strictObject({ name: limitName().optional(), amount: amountOfWindow().optional() })
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
  output: () => usageLimitOutput,
  summary: "Change a usage limit",
  description: "Changes the fields that you send. After a change of the amount, the used amount stays.",
  returns: "The limit.",
  example: () => ({ body: { amount: 60 }, output: { ...exampleLimit, amount: 60 } }),
  handler: ({ admin, row }, { body }) => changeLimit(admin, row, body),
});

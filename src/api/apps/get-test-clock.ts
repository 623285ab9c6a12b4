import { readTestClock } from "../../clocks/clock.ts";

import { administration } from "../access.ts";
import { appParams } from "../common.ts";
import { operation } from "../operation.ts";
import { clockOutput, ready } from "./app-shapes.ts";

export default operation({
  id: "getTestClock",
  method: "get",
  path: "/api/v1/admin/apps/{appId}/clock",
  tag: "Administration",
  access: administration("read", "test"),
  params: appParams,
  ...(WITH_REFERENCE && {
    output: () => clockOutput,
    summary: "Get the time of the test environment",
    description:
      "Returns the environment's time. `now` is null if there is no clock; then the environment uses real time.",
    returns: "The environment's time.",
    example: () => ({ output: ready }),
  }),
  handler: (admin, { params }) => readTestClock(admin, params.appId),
});

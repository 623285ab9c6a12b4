import { removeClock } from "../../clocks/clock.ts";

import { administration } from "../access.ts";
import { appParams } from "../common.ts";
import { operation } from "../operation.ts";
import { clockOutput } from "./app-shapes.ts";

export default operation({
  id: "removeTestClock",
  method: "delete",
  path: "/api/v1/admin/apps/{appId}/clock",
  tag: "Administration",
  access: administration("settings", "test"),
  params: appParams,
  errors: ["invalid_request"],
  ...(WITH_REFERENCE && {
    output: () => clockOutput,
    summary: "Take the test environment back to real time",
    description:
      "Removes the clock. This is possible only while the environment has no credits, usage, payments or people, " +
      "because their times would be in the future; otherwise the response is `invalid_request`.",
    returns: "Real time.",
    example: () => ({ output: { now: null, status: "ready" } }),
  }),
  handler: (admin, { params }) => removeClock(admin, params.appId),
});

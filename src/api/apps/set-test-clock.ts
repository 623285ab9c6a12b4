import { setClock, setClockInput } from "../../clocks/clock.ts";
import { clockOutput } from "../../clocks/responses.ts";
import { administration } from "../access.ts";
import { appParams } from "../common.ts";
import { operation } from "../operation.ts";
import { now, ready } from "./shapes.ts";

export default operation({
  id: "setTestClock",
  method: "put",
  path: "/api/v1/admin/apps/{appId}/clock",
  tag: "Administration",
  access: administration("settings", "test"),
  params: appParams,
  body: setClockInput,
  output: () => clockOutput,
  replayable: true,
  summary: "Set the time of the test environment",
  description:
    "Sets the time of test mode. The clock moves only forward, to at most ten years ahead of real time, and then " +
    "runs at the speed of real time. Everything that becomes due in between happens in order, at its own time: " +
    "holds return or are charged, notices and messages are sent, balances expire. With the status `advancing`, " +
    "the cron does the rest, and until then the environment has the time that was reached. The same `now` again " +
    "returns the first response and continues. Links, sessions, signatures, delivery attempts, erasures and " +
    "retention use real time.",
  returns: "The time that was set.",
  example: () => ({ body: { now }, output: ready }),
  handler: (admin, { params, body }) => setClock(admin, params.appId, body),
});

import * as z from "zod";
import { setClock } from "../../clocks/clock.ts";
import { timestamp } from "../../http/fields.ts";
import { lazy } from "../../http/lazy.ts";
import { words } from "../../lib/words.ts";

import { administration } from "../access.ts";
import { appParams } from "../common.ts";
import { operation } from "../operation.ts";
import { clockOutput, now, ready } from "./app-shapes.ts";

export const setClockInput = lazy(() =>
  z
    .strictObject({
      now: timestamp.meta(
        words(
          "Later than the environment's time, and at most ten years ahead of real time.",
          "2030-02-15T12:00:00.000Z",
        ),
      ),
    })
    .meta({ id: "SetTestClock" }),
);

export default operation({
  id: "setTestClock",
  method: "put",
  path: "/api/v1/admin/apps/{appId}/clock",
  tag: "Administration",
  access: administration("settings", "test"),
  params: appParams,
  body: setClockInput,
  replayable: true,
  ...(WITH_REFERENCE && {
    output: () => clockOutput,
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
  }),
  handler: (admin, { params, body }) => setClock(admin, params.appId, body),
});

import * as z from "zod";
import { timestamp } from "../http/fields.ts";

const clockTime = z.lazy(() =>
  timestamp.describe("Later than the environment's time, and at most ten years ahead of real time."),
);
export const setClockInput = z.lazy(() => z.strictObject({ now: clockTime }).meta({ id: "SetTestClock" }));
export type SetClockInput = z.infer<typeof setClockInput>;

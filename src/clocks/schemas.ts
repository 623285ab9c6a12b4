import * as z from "zod/mini";
import { about, described } from "#described";
import { timestamp } from "../http/fields.ts";

const now = described(timestamp, about("Later than the environment's time, and at most ten years ahead of real time."));
export const setClockInput = described(z.strictObject({ now }), about({ id: "SetTestClock" }));
export type SetClockInput = z.infer<typeof setClockInput>;

import * as z from "zod";

export const clockOutput = z
  .strictObject({
    now: z.string().meta({ format: "date-time" }).nullable().describe("The environment's time. Null: it has no clock."),
    status: z
      .enum(["advancing", "ready"])
      .describe(
        "`advancing`: what lies in between is still being run, and the environment's time is the moment reached.",
      ),
  })
  .meta({ id: "TestClock" });
export type ClockOutput = z.infer<typeof clockOutput>;

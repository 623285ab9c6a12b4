import * as z from "zod";

export const clockOutput = z.lazy(() =>
  z
    .strictObject({
      now: z
        .string()
        .meta({ format: "date-time" })
        .nullable()
        .describe("The environment's time. Null when it has no clock."),
      status: z
        .enum(["advancing", "ready"])
        .describe(
          "`advancing`: events in between are still being processed, and the environment's time is the moment reached so far.",
        ),
    })
    .meta({ id: "TestClock" }),
);
export type ClockOutput = z.infer<typeof clockOutput>;

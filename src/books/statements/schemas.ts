import * as z from "zod";
import { mode } from "../../http/fields.ts";

export const createStatementInput = z.lazy(() =>
  z
    .strictObject({
      mode,
      month: z
        .string()
        .regex(/^\d{4}-(0[1-9]|1[0-2])$/, "must be a month such as `2026-11`")
        .describe("A month in UTC that ended at least an hour ago."),
    })
    .meta({ id: "CreateStatement" }),
);
export type CreateStatementInput = z.infer<typeof createStatementInput>;

import * as z from "zod";
import { mode, queryFlag } from "../../http/fields.ts";

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

export const readStatementInput = z.lazy(() =>
  z.object({
    raw: queryFlag
      .default(false)
      .describe(
        "For CSV: leaves out the apostrophe that stops spreadsheets from reading a text that begins like a formula as one.",
      ),
  }),
);

export const listStatementsInput = z.lazy(() =>
  z.object({ mode: mode.describe("The mode whose statements they are.") }),
);

import * as z from "zod";
import { type ErrorCode, errorStatus } from "../errors.ts";
import { once } from "../lib/once.ts";

/**
 * The description of an error, in the body of a refusal and in the result of one event of a list (W4). The reference describes
 * `details` by code (reference/response-components.ts).
 */
export const errorDetail = z.lazy(
  once(() =>
    z
      .strictObject({
        // Object.keys loses the type of the codes.
        code: z.enum(Object.keys(errorStatus) as ErrorCode[]),
        message: z.string().describe("For people. Its wording may change."),
        param: z.string().optional().describe("The wrong argument, such as `items[0].amount`."),
        details: z.looseObject({}).optional().describe("Details for programs. They depend on the code."),
        requestId: z.string().describe("The request's id, also in `x-request-id`."),
      })
      .meta({ id: "ErrorDetail" }),
  ),
);

/** The body of every refusal (W4). */
export const errorBody = z.lazy(() => z.strictObject({ error: errorDetail }).meta({ id: "Error" }));

export type ErrorBody = z.infer<typeof errorBody>;

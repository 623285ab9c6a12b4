import * as z from "zod";
import { type ErrorCode, errorStatus } from "../errors.ts";
import { words } from "../lib/words.ts";
import { lazy } from "./lazy.ts";

/**
 * The description of an error, in the body of a rejection and in the result of one event of a list (W4). The reference describes
 * `details` by code (reference/response-components.ts).
 */
export const errorDetail = /* @__PURE__ */ lazy(() =>
  z
    .strictObject({
      // Object.keys loses the type of the codes.
      code: z.enum(Object.keys(errorStatus) as ErrorCode[]),
      message: z.string().meta(words("For people. Its wording may change.", "must not be empty")),
      param: z.string().optional().meta(words("The wrong argument, such as `items[0].amount`.", "items[0].amount")),
      details: z.looseObject({}).optional().meta(words("Details for programs. They depend on the code.")),
      requestId: z.string().meta(words("The request's id, also in `x-request-id`.", "req_4ZkX0uTn2mWq8hYc1LfRsa")),
    })
    .meta({ id: "ErrorDetail" }),
);

/** The body of every rejection (W4). */
export const errorBody = /* @__PURE__ */ lazy(() =>
  z.strictObject({ error: errorDetail.meta(words("The error.")) }).meta({ id: "Error" }),
);

export type ErrorBody = z.infer<typeof errorBody>;

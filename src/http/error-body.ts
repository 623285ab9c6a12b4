import * as z from "zod";
import { type ErrorCode, errorStatus } from "../errors.ts";

/** The body of every refusal (W4). */
export const errorBody = z.strictObject({
  error: z.strictObject({
    // Object.keys forgets that these are the catalogue's own.
    code: z.enum(Object.keys(errorStatus) as ErrorCode[]),
    message: z.string().describe("For people; its wording may change."),
    param: z.string().optional().describe("The argument at fault, such as `items[0].amount`."),
    details: z.looseObject({}).optional().describe("Particulars for programs, by code."),
    requestId: z.string().describe("The request's own id, also in `x-request-id`."),
  }),
});
export type ErrorBody = z.infer<typeof errorBody>;

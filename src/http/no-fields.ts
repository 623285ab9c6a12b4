import * as z from "zod";

/** What a POST takes that has no fields: any field is an unknown one (W6). */
export const noFields = z.strictObject({});

import * as z from "zod/mini";

/** The body of a POST without fields. Any field is unknown (W6). */
export const noFields = z.strictObject({});

import * as z from "zod";

/** The body of a POST without fields. Any field is unknown (W6). */
export const noFields = z.strictObject({});

import * as z from "zod";

export const nextCursor = z.string().nullable().describe("The cursor of the next page. Null on the last page.");

/** A time in a response: ISO 8601 in UTC, with milliseconds (W10). */
export const time = z.string().meta({ format: "date-time" });

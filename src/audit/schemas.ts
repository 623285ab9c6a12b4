import * as z from "zod";
import { cursor, queryInteger } from "../http/fields.ts";

export const listAuditInput = z.object({
  limit: queryInteger(1, 500).default(50).describe("The most entries in a page."),
  cursor,
});
export type ListAuditInput = z.infer<typeof listAuditInput>;

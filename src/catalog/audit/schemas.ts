import * as z from "zod";
import { cursor, pageLimit } from "../../http/fields.ts";

export const listAuditInput = z.lazy(() =>
  z.object({
    limit: pageLimit("entries"),
    cursor,
  }),
);
export type ListAuditInput = z.infer<typeof listAuditInput>;

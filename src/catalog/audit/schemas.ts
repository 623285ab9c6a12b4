import * as z from "zod";
import { cursor, identifier, mode, pageLimit, refuse } from "../../http/fields.ts";

/** A page of the audit of acts that belong to no application. */
export const pageInput = z.lazy(() => z.object({ limit: pageLimit("entries"), cursor }));

export const listAuditInput = z.lazy(() =>
  z
    .object({
      limit: pageLimit("entries"),
      cursor,
      userId: identifier().optional().describe("Only acts about this user, of `mode`."),
      mode: mode.optional().describe("With `userId`: the mode that the user is in."),
    })
    .superRefine(({ userId, mode }, context) => {
      if ((userId === undefined) !== (mode === undefined)) refuse(context, "`userId` and `mode` go together");
    }),
);
export type ListAuditInput = z.infer<typeof pageInput> & Partial<z.infer<typeof listAuditInput>>;

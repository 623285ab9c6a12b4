import * as z from "zod";
import { identifier } from "../http/fields.ts";

export const exportPersonInput = z.lazy(() =>
  z
    .strictObject({
      distinctId: identifier().describe("Any id of the person: one that your analytics, credits or consents use."),
    })
    .meta({ id: "ExportPerson" }),
);
export type ExportPersonInput = z.infer<typeof exportPersonInput>;

export const revokeLinksInput = z.lazy(() =>
  z
    .strictObject({ distinctId: identifier().describe("The id that the links were created for.") })
    .meta({ id: "RevokeExportLinks" }),
);

import * as z from "zod/mini";
import { described } from "../http/described.ts";
import { identifier } from "../http/fields.ts";

export const exportPersonInput = described(
  z.strictObject({
    distinctId: described(identifier(), "Any id of the person: one that your analytics, credits or consents use."),
  }),
  { id: "ExportPerson" },
);
export type ExportPersonInput = z.infer<typeof exportPersonInput>;

import * as z from "zod/mini";
import { about, described } from "#described";
import { identifier } from "../http/fields.ts";

export const exportPersonInput = described(
  z.strictObject({
    distinctId: described(
      identifier(),
      about("Any id of the person: one that your analytics, credits or consents use."),
    ),
  }),
  about({ id: "ExportPerson" }),
);
export type ExportPersonInput = z.infer<typeof exportPersonInput>;

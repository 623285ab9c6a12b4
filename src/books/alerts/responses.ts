import * as z from "zod";
import { mode } from "../../http/fields.ts";
import { unit } from "../amounts/schemas.ts";

export const alertOutput = z.lazy(() =>
  z
    .strictObject({
      alertId: z.string(),
      mode,
      name: z.string(),
      unit,
      event: z.string().nullable().describe("Null: every balance of the unit is watched."),
      below: z.union([z.strictObject({ amount: z.number() }), z.strictObject({ percent: z.number() })]),
      createdAt: z.string().meta({ format: "date-time" }),
    })
    .meta({ id: "Alert" }),
);
export type AlertOutput = z.infer<typeof alertOutput>;

export const expiryNoticesOutput = z.lazy(() =>
  z
    .strictObject({ appId: z.string(), mode, days: z.array(z.int()).describe("The most days first.") })
    .meta({ id: "ExpiryNotices" }),
);
export type ExpiryNoticesOutput = z.infer<typeof expiryNoticesOutput>;

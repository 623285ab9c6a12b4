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

export const listAlertsOutput = z.lazy(() =>
  z.strictObject({ alerts: z.array(alertOutput) }).meta({ id: "AlertList" }),
);
export type ListAlertsOutput = z.infer<typeof listAlertsOutput>;

export const listAlertUsersOutput = z.lazy(() =>
  z
    .strictObject({
      users: z.array(z.strictObject({ userId: z.string() }).meta({ id: "AlertUser" })),
      nextCursor: z.string().nullable().describe("The cursor of the next page. Null on the last page."),
    })
    .meta({ id: "AlertUserPage" }),
);
export type ListAlertUsersOutput = z.infer<typeof listAlertUsersOutput>;

export const expiryNoticesOutput = z.lazy(() =>
  z
    .strictObject({ appId: z.string(), mode, days: z.array(z.int()).describe("The most days first.") })
    .meta({ id: "ExpiryNotices" }),
);
export type ExpiryNoticesOutput = z.infer<typeof expiryNoticesOutput>;

import { and, eq } from "drizzle-orm";
import type { ValueOf } from "../../db/query.ts";
import { alerts } from "../../db/schema.ts";
import { iso } from "../../lib/time.ts";
import type { Mode } from "../../runtime.ts";
import { fromSteps } from "../amounts/amount.ts";
import type { AlertOutput } from "./responses.ts";

export type AlertRow = typeof alerts.$inferSelect;
export type AlertKey = { environmentId: number; alertId: string };
export const ofAlertKey = (value: ValueOf<AlertKey>) =>
  and(eq(alerts.environmentId, value("environmentId")), eq(alerts.id, value("alertId")));

/** An alert as the API returns it. */
export function presentAlert({ id, name, unit, event, createdAtMs, ...row }: AlertRow, mode: Mode): AlertOutput {
  const { amountSteps, percentThousandths } = row;
  const below =
    amountSteps === null ? { percent: (percentThousandths ?? 0) / 1_000 } : { amount: fromSteps(unit, amountSteps) };
  return { alertId: id, mode, name, unit, event, below, createdAt: iso(createdAtMs) };
}

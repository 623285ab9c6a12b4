import { fromSteps } from "../amounts/amount.ts";
import { type RowOf, select } from "../db/sql.ts";
import { alerts } from "../db/tables.ts";
import { iso } from "../lib/time.ts";
import type { Mode } from "../runtime.ts";
import type { AlertOutput } from "./responses.ts";

const columns = {
  environmentId: alerts.environmentId,
  id: alerts.id,
  name: alerts.name,
  unit: alerts.unit,
  event: alerts.event,
  amountSteps: alerts.amountSteps,
  percentThousandths: alerts.percentThousandths,
  createdAtMs: alerts.createdAtMs,
};
/** The columns of `alerts AS l`. */
export const alertColumns = select(columns, "l");
export type AlertRow = RowOf<typeof columns>;

/** An alert as the API returns it. */
export function presentAlert({ id, name, unit, event, createdAtMs, ...row }: AlertRow, mode: Mode): AlertOutput {
  const { amountSteps, percentThousandths } = row;
  const below =
    amountSteps === null ? { percent: (percentThousandths ?? 0) / 1_000 } : { amount: fromSteps(unit, amountSteps) };
  return { alertId: id, mode, name, unit, event, below, createdAt: iso(createdAtMs) };
}

import { fromSteps } from "../amounts/amount.ts";
import { alerts } from "../db/schema.ts";
import { allColumns, type RowOf, select } from "../db/sql.ts";
import { iso } from "../lib/time.ts";
import type { Mode } from "../runtime.ts";
import type { AlertOutput } from "./responses.ts";

export const alertColumns = select(allColumns(alerts), "l");
export type AlertRow = RowOf<(typeof alerts)["_"]["columns"]>;

/** An alert as the API returns it. */
export function presentAlert({ id, name, unit, event, createdAtMs, ...row }: AlertRow, mode: Mode): AlertOutput {
  const { amountSteps, percentThousandths } = row;
  const below =
    amountSteps === null ? { percent: (percentThousandths ?? 0) / 1_000 } : { amount: fromSteps(unit, amountSteps) };
  return { alertId: id, mode, name, unit, event, below, createdAt: iso(createdAtMs) };
}

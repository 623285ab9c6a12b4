import { fromSteps } from "../amounts/amount.ts";
import { iso } from "../lib/time.ts";
import type { LedgerRow } from "./insert-entries.ts";

/** A ledger row with the fields of the interface, and `note` and `unit` (C16). Its id follows from what is unique. */
export function presentEntry(row: LedgerRow) {
  return {
    id: `led_${row.balanceId.replace(/^crb_/, "")}_${row.seq}`,
    balanceId: row.balanceId,
    packId: row.packId,
    delta: fromSteps(row.unit, row.deltaSteps),
    unit: row.unit,
    reason: row.reason,
    eventId: row.eventId,
    reservationId: row.reservationId,
    occurredAt: iso(row.occurredAtMs),
    note: row.note,
  };
}

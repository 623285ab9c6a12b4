import { iso } from "../../lib/time.ts";
import { fromSteps } from "../amounts/amount.ts";
import type { LedgerRow } from "./insert-entries.ts";

/** A ledger entry as the API returns it (C16). Its id is made of its balance's id and its seq, which are unique together. */
export function presentEntry(row: LedgerRow) {
  return {
    id: `led_${row.balanceId.slice("crb_".length)}_${row.seq}`,
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

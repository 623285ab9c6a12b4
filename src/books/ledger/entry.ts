import { sql } from "drizzle-orm";
import { presenter, wire } from "../../db/presenter.ts";
import { creditLedger } from "../../db/schema.ts";
import { fromSteps } from "../amounts/amount.ts";
import { amountJson } from "../amounts/amount-sql.ts";
import type { LedgerRow } from "./insert-entries.ts";

const { plain, time } = wire(creditLedger);

/** A ledger entry in a person's export. Its id combines the balance's id and the entry's seq, which are unique together. */
export const exportedEntryFields = {
  id: {
    of: ({ balanceId, seq }: Pick<LedgerRow, "balanceId" | "seq">) => `led_${balanceId.slice("crb_".length)}_${seq}`,
    json: () => sql`json_quote('led_' || substr(${creditLedger.balanceId}, 5) || '_' || ${creditLedger.seq})`,
  },
  balanceId: plain("balanceId"),
  packId: plain("packId"),
  delta: {
    of: ({ unit, deltaSteps }: Pick<LedgerRow, "unit" | "deltaSteps">) => fromSteps(unit, deltaSteps),
    json: () => amountJson(creditLedger.deltaSteps, creditLedger.unit),
  },
  unit: plain("unit"),
  reason: plain("reason"),
  cause: plain("cause"),
  eventId: plain("eventId"),
  reservationId: plain("reservationId"),
  occurredAt: time("occurredAtMs"),
  note: plain("note"),
};

/** A ledger entry as the API returns it (C16). */
export const entryFields = { ...exportedEntryFields, by: plain("writtenBy") };

export const presentEntry = presenter(entryFields);

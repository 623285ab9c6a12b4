import { fromSteps } from "../books/amounts/amount.ts";
import { ledgerPage } from "../books/credits/history.ts";
import type { HistoryInput } from "../books/credits/schemas.ts";
import { type LedgerFilters, passesFilters } from "../books/credits/search-ledger.ts";
import type { LedgerRow } from "../books/ledger/insert-entries.ts";
import { iso } from "../lib/time.ts";
import type { TenantCtx } from "../runtime.ts";

const PAGE_ROWS = 500;
/** A file has the newest entries, up to this many, so that the number of reads is bounded. */
const ROWS_MAX = 10_000;

const HEAD = "occurredAt,balanceId,packId,delta,unit,remaining,reason,eventId,reservationId,note";

/** A quoted cell. A spreadsheet must not read it as a formula. */
function cell(value: string | number | null): string {
  if (value === null) return "";
  if (typeof value === "number") return String(value);
  const harmless = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
  return `"${harmless.replaceAll('"', '""')}"`;
}

const line = (row: LedgerRow): string =>
  [
    iso(row.occurredAtMs),
    row.balanceId,
    row.packId,
    fromSteps(row.unit, row.deltaSteps),
    row.unit,
    fromSteps(row.unit, row.balanceAfterSteps),
    row.reason,
    row.eventId,
    row.reservationId,
    row.note,
  ]
    .map(cell)
    .join(",");

/** A user's ledger as CSV, newest first, page by page. */
export function ledgerCsv(ctx: TenantCtx, input: Pick<HistoryInput, "userId" | "balanceId">, filters: LedgerFilters) {
  const encoder = new TextEncoder();
  let cursor: string | undefined;
  let sent = 0;
  return new ReadableStream<Uint8Array>(
    {
      start: (controller) => controller.enqueue(encoder.encode(`${HEAD}\r\n`)),
      pull: async (controller) => {
        const page = await ledgerPage(ctx, { ...input, limit: PAGE_ROWS, ...(cursor === undefined ? {} : { cursor }) });
        const rows = page.rows.filter((row) => passesFilters(row, filters));
        controller.enqueue(encoder.encode(rows.map((row) => `${line(row)}\r\n`).join("")));
        sent += page.rows.length;
        cursor = page.nextCursor ?? undefined;
        if (cursor === undefined || sent >= ROWS_MAX) controller.close();
      },
    },
    { highWaterMark: 0 },
  );
}

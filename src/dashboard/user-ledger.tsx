import type { Context } from "hono";
import { fromSteps } from "../books/amounts/amount.ts";
import {
  type LedgerFilters,
  type LedgerPage,
  ledgerPage,
  passesFilters,
  searchedEntriesMax,
} from "../books/credits/history.ts";
import type { HistoryInput } from "../books/credits/schemas.ts";
import type { LedgerRow } from "../books/ledger/insert-entries.ts";
import { ledgerReason } from "../books/ledger/schemas.ts";
import type { EventDescription } from "../books/usage/read-event.ts";
import { csvCell } from "../lib/csv.ts";
import { iso } from "../lib/time.ts";
import type { TenantCtx } from "../runtime.ts";
import { StepChart } from "./chart.tsx";
import { Choice, Field, Hidden, numbers, Pager, Table } from "./components.tsx";
import type { DashboardEnv, Form } from "./form.ts";
import { amountText, queryString, signed, Time, timeText } from "./format.tsx";
import { pathIn } from "./layout.tsx";
import { BalanceLink, EventLink, quantitiesText, ReservationLink } from "./people-list.tsx";
import type { UserBalanceRowView } from "./user-balances.tsx";

interface LedgerProps {
  readonly c: Context<DashboardEnv>;
  readonly form: Form;
  readonly balances: readonly UserBalanceRowView[];
  readonly page: LedgerPage;
  /** The usage events that caused the page's entries. */
  readonly events: ReadonlyMap<string, EventDescription>;
  /** The balance that the chart shows, and its newest entries. Null when the user has no balance. */
  readonly chart: { readonly balance: UserBalanceRowView; readonly rows: readonly LedgerRow[] } | null;
}

export const Ledger = ({ c, form, balances, page, events, chart }: LedgerProps) => {
  const { userId = "", balanceId = "", reason = "", from = "", to = "" } = form;
  const filters = { userId, balanceId, reason, from, to };
  const link = (fields: Record<string, string>) =>
    `${pathIn(c, "users")}${queryString({ ...filters, ...fields })}#ledger`;
  return (
    <section class="card" id="ledger">
      <h2>Ledger</h2>
      {chart !== null && <BalanceChart balance={chart.balance} rows={chart.rows} />}
      <form method="get" action={`${pathIn(c, "users")}#ledger`} class="row">
        <Hidden fields={{ userId }} />
        <Choice
          label="Balance"
          name="balanceId"
          value={balanceId}
          options={[
            ["", "all"],
            ...balances.map(
              (balance) =>
                [
                  balance.balanceId,
                  `${balance.packName}, ${amountText(balance.initial)} ${balance.unit}, ${timeText(balance.grantedAt)}, …${balance.balanceId.slice(-4)}`,
                ] as const,
            ),
          ]}
        />
        <Choice
          label="Reason"
          name="reason"
          value={reason}
          options={[["", "all"], ...ledgerReason.unwrap().options.map((each) => [each, each] as const)]}
        />
        <Field label="From (UTC)" name="from" type="date" value={from} />
        <Field label="To, included (UTC)" name="to" type="date" value={to} />
        <button type="submit" class="quiet">
          Filter
        </button>
        <a class="button quiet" href={`${pathIn(c, "users/ledger.csv")}${queryString(filters)}`}>
          Download CSV
        </a>
      </form>
      <Entries c={c} balances={balances} rows={page.rows} events={events} />
      {(reason !== "" || from !== "") && page.nextCursor !== null && (
        <p class="soft">
          This page searched {amountText(searchedEntriesMax)} entries. Older pages may have more of these.
        </p>
      )}
      <Pager first={form.cursor ? link({}) : null} next={page.nextCursor && link({ cursor: page.nextCursor })} />
    </section>
  );
};

type EntriesProps = Pick<LedgerProps, "c" | "balances" | "events"> & { readonly rows: readonly LedgerRow[] };

const Entries = ({ c, balances, rows, events }: EntriesProps) => {
  const nameOf = (id: string) => balances.find((balance) => balance.balanceId === id)?.packName;
  return (
    <Table
      label="Ledger"
      head={["When", "Balance", numbers("Change"), numbers("Balance after"), "Reason", "Cause", "By", "Source", "Note"]}
      empty="No entries."
      rows={rows.map((row) => [
        <Time at={iso(row.occurredAtMs)} />,
        <>
          {nameOf(row.balanceId)} <BalanceLink c={c} id={row.balanceId} />
        </>,
        <span class={row.deltaSteps > 0 ? "num plus" : "num"}>
          {signed(fromSteps(row.unit, row.deltaSteps))} {row.unit}
        </span>,
        <span class="num">{amountText(fromSteps(row.unit, row.balanceAfterSteps))}</span>,
        row.reason,
        row.cause,
        row.writtenBy,
        <SourceLinks c={c} row={row} event={row.eventId === null ? undefined : events.get(row.eventId)} />,
        row.note ?? "",
      ])}
    />
  );
};

/** Shows the cause of an entry: its usage event with the quantities, or its reservation. */
const SourceLinks = ({
  c,
  row,
  event,
}: Pick<LedgerProps, "c"> & { row: LedgerRow; event: EventDescription | undefined }) => (
  <>
    {event !== undefined && (
      <div>
        {[event.event, event.model].filter((part) => part !== null).join(" · ")}: {quantitiesText(event.quantities)}
      </div>
    )}
    {row.eventId !== null && <EventLink c={c} id={row.eventId} />}{" "}
    {row.reservationId !== null && <ReservationLink c={c} id={row.reservationId} />}
  </>
);

/** Shows a balance's remaining amount over time, oldest first. */
const BalanceChart = ({ balance, rows }: { balance: UserBalanceRowView; rows: readonly LedgerRow[] }) => (
  <StepChart
    label={`${balance.packName}: ${balance.unit} remaining`}
    steps={rows.toReversed().map((row) => ({
      at: iso(row.occurredAtMs),
      value: fromSteps(row.unit, row.balanceAfterSteps),
    }))}
  />
);

const PAGE_ROWS = 500;
/** The most entries in a file, the newest ones, so that the number of reads is bounded. */
const LEDGER_ROWS_MAX = 10_000;

const HEAD = "occurredAt,balanceId,packId,delta,unit,remaining,reason,cause,by,eventId,reservationId,note";

const ledgerLine = (row: LedgerRow): string =>
  [
    iso(row.occurredAtMs),
    row.balanceId,
    row.packId,
    fromSteps(row.unit, row.deltaSteps),
    row.unit,
    fromSteps(row.unit, row.balanceAfterSteps),
    row.reason,
    row.cause,
    row.writtenBy,
    row.eventId,
    row.reservationId,
    row.note,
  ]
    .map(csvCell)
    .join(",");

/** Returns a user's ledger as CSV, newest first, page by page. */
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
        controller.enqueue(encoder.encode(rows.map((row) => `${ledgerLine(row)}\r\n`).join("")));
        sent += page.rows.length;
        cursor = page.nextCursor ?? undefined;
        if (cursor === undefined || sent >= LEDGER_ROWS_MAX) controller.close();
      },
    },
    { highWaterMark: 0 },
  );
}

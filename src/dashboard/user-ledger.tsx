import { useContext } from "hono/jsx";
import { ledgerReason } from "../api/credits/credit-shapes.ts";
import { fromMinor } from "../books/amounts/amount.ts";
import type { LedgerRow } from "../books/credits/history.ts";
import { SEARCHED_LEDGER_ENTRIES_MAX } from "../books/credits/search-ledger.ts";
import type { EventDescription } from "../books/usage/describe-events.ts";
import { iso } from "../lib/time.ts";
import { StepChart } from "./chart.tsx";
import { numberHead } from "./components.tsx";
import { Choice, Field, Hidden } from "./fields.tsx";
import type { Form, PageContext } from "./form.ts";
import { amountText, queryString, Time, timeText } from "./format.tsx";
import { pathIn } from "./layout.tsx";
import { BalanceLink, EventLink, ReservationLink } from "./links.tsx";
import { type ListColumn, ListTable, type ShownList } from "./list.tsx";
import { BareAmount, QuantityList, UnitChange, UnitsContext, unitAmountText, unitText } from "./unit-amount.tsx";
import type { UserBalance } from "./user-balances.tsx";

interface LedgerProps {
  readonly c: PageContext;
  readonly form: Form;
  readonly balances: readonly UserBalance[];
  readonly list: ShownList<LedgerRow>;
  /** The usage events that caused the page's entries. */
  readonly events: ReadonlyMap<string, EventDescription>;
  /** The balance that the chart shows, and its newest entries. Null when the user has no balance. */
  readonly chart: { readonly balance: UserBalance; readonly rows: readonly LedgerRow[] } | null;
}

export const Ledger = ({ c, form, balances, list, events, chart }: LedgerProps) => {
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
                  `${balance.packName}, ${unitAmountText(c.var.units, balance.unit, balance.initial)}, ${timeText(balance.grantedAt)}, …${balance.balanceId.slice(-4)}`,
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
      </form>
      <ListTable
        label="Ledger"
        columns={LEDGER_COLUMNS}
        list={list}
        view={{ c, balances, events }}
        hrefOf={link}
        csvHrefOf={(fields) => `${pathIn(c, "users/ledger.csv")}${queryString({ ...filters, ...fields })}`}
        empty="No entries."
      />
      {(reason !== "" || from !== "") && list.nextCursor !== null && (
        <p class="soft">
          This page searched {amountText(SEARCHED_LEDGER_ENTRIES_MAX)} entries. Older pages may have more of these.
        </p>
      )}
    </section>
  );
};

type LedgerView = Pick<LedgerProps, "c" | "balances" | "events">;
const columnOf = <
  Name extends "balanceId" | "packId" | "unit" | "reason" | "cause" | "eventId" | "reservationId" | "note",
>(
  name: Name,
) => ({ name, value: (row: LedgerRow) => row[name] });

export const LEDGER_COLUMNS: readonly ListColumn<LedgerRow, LedgerView>[] = [
  {
    name: "occurredAt",
    head: "When",
    cell: (row) => <Time at={iso(row.occurredAtMs)} />,
    value: (row) => iso(row.occurredAtMs),
    // Entries of one moment keep their order.
    sortKey: (row) => [row.occurredAtMs, row.seq],
  },
  {
    ...columnOf("balanceId"),
    head: "Balance",
    cell: ({ balanceId }, { c, balances }) => (
      <>
        {balances.find((balance) => balance.balanceId === balanceId)?.packName} <BalanceLink c={c} id={balanceId} />
      </>
    ),
  },
  columnOf("packId"),
  {
    name: "delta",
    head: numberHead("Change"),
    cell: (row) => (
      <span class={row.deltaMinor > 0 ? "num plus" : "num"}>
        <UnitChange of={fromMinor(row.unit, row.deltaMinor)} unit={row.unit} />
      </span>
    ),
    value: (row) => fromMinor(row.unit, row.deltaMinor),
    sortKey: (row) => [row.unit, fromMinor(row.unit, row.deltaMinor)],
  },
  columnOf("unit"),
  {
    name: "remaining",
    head: numberHead("Balance after"),
    cell: (row) => (
      <span class="num">
        <BareAmount of={fromMinor(row.unit, row.balanceAfterMinor)} unit={row.unit} />
      </span>
    ),
    value: (row) => fromMinor(row.unit, row.balanceAfterMinor),
    sortKey: (row) => [row.unit, fromMinor(row.unit, row.balanceAfterMinor)],
  },
  { ...columnOf("reason"), head: "Reason", cell: (row) => row.reason },
  { ...columnOf("cause"), head: "Cause", cell: (row) => row.cause },
  { name: "by", head: "By", cell: (row) => row.writtenBy, value: (row) => row.writtenBy },
  {
    name: "source",
    head: "Source",
    cell: (row, { c, events }) => (
      <SourceLinks c={c} row={row} event={row.eventId === null ? undefined : events.get(row.eventId)} />
    ),
    sortKey: (row) => [row.eventId, row.reservationId],
  },
  columnOf("eventId"),
  columnOf("reservationId"),
  { ...columnOf("note"), head: "Note", cell: (row) => row.note ?? "" },
];

/** Shows the cause of an entry: its usage event with the quantities, or its reservation. */
const SourceLinks = ({
  c,
  row,
  event,
}: Pick<LedgerProps, "c"> & { row: LedgerRow; event: EventDescription | undefined }) => (
  <>
    {event !== undefined && (
      <div>
        {[event.event, event.model].filter((part) => part !== null).join(" · ")}: <QuantityList of={event.quantities} />
      </div>
    )}
    {row.eventId !== null && <EventLink c={c} id={row.eventId} />}{" "}
    {row.reservationId !== null && <ReservationLink c={c} id={row.reservationId} />}
  </>
);

/** Shows a balance's remaining amount over time, oldest first. */
const BalanceChart = ({ balance, rows }: { balance: UserBalance; rows: readonly LedgerRow[] }) => (
  <StepChart
    label={`${balance.packName}: ${unitText(useContext(UnitsContext), balance.unit)} remaining`}
    steps={rows.toReversed().map((row) => ({
      at: iso(row.occurredAtMs),
      value: fromMinor(row.unit, row.balanceAfterMinor),
    }))}
  />
);

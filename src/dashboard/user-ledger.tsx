import { useContext } from "hono/jsx";
import { ledgerReason } from "../api/credits/credit-shapes.ts";
import { historyInput } from "../api/credits/list-ledger-entries.ts";
import { fromMinor } from "../books/amounts/amount.ts";
import { type LedgerRow, ledgerPage } from "../books/credits/history.ts";
import { type LedgerFilters, SEARCHED_LEDGER_ENTRIES_MAX, searchLedger } from "../books/credits/search-ledger.ts";
import { describeEvents, type EventDescription } from "../books/usage/describe-events.ts";
import { namesOfKeys } from "../catalog/keys.ts";
import { invalid } from "../errors.ts";
import { DAY_MS, iso } from "../lib/time.ts";
import { StepChart } from "./chart.tsx";
import { customColumn } from "./columns.tsx";
import { type Form, type PageContext, parseForm, textField, timeField } from "./form.ts";
import { Time, timeText } from "./format.tsx";
import { BalanceLink, EventLink, ReservationLink } from "./links.tsx";
import { rare } from "./list.tsx";
import type { ListColumn } from "./read-list.ts";
import type { Resource } from "./resource.tsx";
import { numberHead } from "./table.tsx";
import { BareAmount, QuantityList, UnitChange, UnitsContext, unitAmountText, unitText } from "./unit-amount.tsx";
import type { UserBalance } from "./user-balances.tsx";

/** The newest entries that the chart of a balance shows. */
const CHART_ROWS = 200;

/** A ledger entry, on a page with the name of its pack and the usage event that caused it. */
type LedgerLine = LedgerRow & {
  readonly packName?: string | undefined;
  readonly event?: EventDescription | undefined;
  /** The name of the key that wrote it. */
  readonly writer?: string | undefined;
};

/** The ledger of a user, newest first. The file has the entries alone. */
export const ledgerList = (balances: readonly UserBalance[]): Resource<LedgerLine> => ({
  path: "users",
  file: "users/ledger",
  id: "ledger",
  title: "Ledger",
  heading: "Ledger",
  columns: LEDGER_COLUMNS,
  filters: (c) => [
    { name: "userId" },
    { name: "balanceId", label: "Balance", options: [["", "all"], ...balances.map((each) => balanceChoice(c, each))] },
    { name: "reason", label: "Reason", options: [["", "all"], ...ledgerReason.unwrap().options] },
    { name: "from", label: "From (UTC)", type: "date" },
    { name: "to", label: "To, included (UTC)", type: "date" },
  ],
  read: (c, form) => {
    const { userId, balanceId } = form;
    const input = parseForm(historyInput, { userId, balanceId });
    const filters = readLedgerFilters(form);
    return (page) => searchLedger(c.var.ctx, { ...input, ...page }, filters);
  },
  complete: async ({ var: { ctx } }, rows) => {
    const eventIds = rows.flatMap(({ eventId }) => (eventId === null ? [] : [eventId]));
    const writers = [...new Set(rows.map(({ writtenBy }) => writtenBy))];
    const [events, names] = await Promise.all([describeEvents(ctx, eventIds), namesOfKeys(ctx, writers)]);
    const packs = new Map(balances.map(({ balanceId, packName }) => [balanceId, packName]));
    return rows.map((row) => ({
      ...{ ...row, packName: packs.get(row.balanceId), event: events.get(row.eventId ?? "") },
      writer: names.get(row.writtenBy),
    }));
  },
  empty: "No entries.",
  searched: [SEARCHED_LEDGER_ENTRIES_MAX, "entries"],
  head: async (c, { form: { userId = "", balanceId } }) => {
    const balance = balances.find((each) => each.balanceId === balanceId) ?? balances[0];
    if (balance === undefined) return null;
    const { rows } = await ledgerPage(c.var.ctx, { userId, balanceId: balance.balanceId, limit: CHART_ROWS });
    return <BalanceChart balance={balance} rows={rows} />;
  },
});

const balanceChoice = (
  { var: { units } }: PageContext,
  { balanceId, packName, unit, initial, grantedAt }: UserBalance,
) =>
  [
    balanceId,
    `${packName}, ${unitAmountText(units, unit, initial)}, ${timeText(grantedAt)}, …${balanceId.slice(-4)}`,
  ] as const;

/** Returns the start of the day of a date field, in milliseconds. */
function dayField(form: Form, name: string): number | undefined {
  const text = timeField(form, name);
  if (text === undefined) return undefined;
  const atMs = Date.parse(text);
  if (Number.isNaN(atMs)) throw invalid(name, "must be a date such as 2026-01-31");
  return atMs;
}

function readLedgerFilters(form: Form): LedgerFilters {
  const reason = textField(form, "reason");
  const toMs = dayField(form, "to");
  return {
    reason: reason === undefined ? undefined : parseForm(ledgerReason, reason),
    fromMs: dayField(form, "from"),
    toMs: toMs === undefined ? undefined : toMs + DAY_MS,
  };
}

const columnOf = <
  Name extends "balanceId" | "packId" | "unit" | "reason" | "cause" | "eventId" | "reservationId" | "note",
>(
  name: Name,
) => ({ name, value: (row: LedgerRow) => row[name] });

const LEDGER_COLUMNS: readonly ListColumn<LedgerLine>[] = [
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
    cell: ({ packName, balanceId }) => (
      <>
        {packName} <BalanceLink id={balanceId} />
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
  columnOf("reason"),
  { ...columnOf("cause"), head: "Cause", cell: (row) => row.cause.replaceAll("_", " ") },
  customColumn(
    "by",
    "By",
    ({ writer, writtenBy }) => writer ?? writtenBy,
    (row) => row.writtenBy,
  ),
  {
    name: "source",
    head: "Source",
    cell: (row) => <SourceLinks row={row} />,
    sortKey: (row) => [row.eventId, row.reservationId],
  },
  columnOf("eventId"),
  columnOf("reservationId"),
  rare({ ...columnOf("note"), head: "Note", cell: (row) => row.note ?? "" }),
];

/** Shows the cause of an entry: its usage event with the quantities, or its reservation. */
const SourceLinks = ({ row: { event, eventId, reservationId } }: { row: LedgerLine }) => (
  <>
    {event !== undefined && (
      <div>
        {[event.event, event.model].filter((part) => part !== null).join(" · ")}: <QuantityList of={event.quantities} />
      </div>
    )}
    {eventId !== null && <EventLink id={eventId} />} {reservationId !== null && <ReservationLink id={reservationId} />}
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

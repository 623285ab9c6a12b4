import type { Child } from "hono/jsx";
import { fromMinor, UNITS } from "../books/amounts/amount.ts";
import {
  type EntriesOf,
  EXAMINED_ENTRIES_MAX,
  EXAMINED_EXPIRIES_MAX,
  EXAMINED_USERS_MAX,
  type FoundEntry,
  findEntries,
  listExpiries,
} from "../books/credits/find-entries.ts";
import { invalid } from "../errors.ts";
import { findLinks, SEARCHED_LINKS_MAX } from "../exports/export-audit.ts";
import { DAY_MS, iso } from "../lib/time.ts";
import { type MoneyDay, readMoneyDays } from "../payments/money-days.ts";
import { AppLink } from "./app-link.tsx";
import {
  balanceColumn,
  customColumn,
  fieldColumn,
  moneyColumn,
  remainingColumn,
  shownColumn,
  tagColumn,
  timeColumn,
  userColumn,
} from "./columns.tsx";
import { Empty } from "./components.tsx";
import { createDashboardRoutes, type Form, type PageContext, textField, timeField } from "./form.ts";
import { amountText, queryString, Time } from "./format.tsx";
import { EventLink, PersonLink, ReservationLink } from "./links.tsx";
import { rare } from "./list.tsx";
import { packChoices } from "./packs.tsx";
import type { ListColumn } from "./read-list.ts";
import { listHandlers } from "./resource.tsx";
import { numberHead } from "./table.tsx";
import { UnitChange } from "./unit-amount.tsx";
import { unitOptions } from "./unit-choice.tsx";

interface FigureFilters {
  readonly unit: string | undefined;
  readonly packId: string | undefined;
  readonly fromMs: number;
  readonly toMs: number;
}

interface FigureDeclaration<Row> {
  readonly title: string;
  /** Describes the list, and the entries that may be missing. It formats a number only when the page is shown. */
  readonly about: Child | (() => Child);
  readonly columns: readonly ListColumn<Row>[];
  readonly read: (
    c: PageContext,
    filters: FigureFilters,
    cursor: string | undefined,
  ) => Promise<{ readonly rows: readonly Row[]; readonly nextCursor: string | null }>;
  readonly hasUnits?: boolean;
}

const ALL_UNITS = ["", "all"] as const;

/** Declares the list of a figure: all have the same path, days and filters. */
const figure = <Row,>({ read, hasUnits = false, ...own }: FigureDeclaration<Row>) =>
  listHandlers<Row, unknown>({
    ...own,
    path: "figures",
    section: "overview",
    defaults: ({ var: { ctx } }) => {
      const today = Math.floor(ctx.now() / DAY_MS) * DAY_MS;
      return { from: dateOf(today - 29 * DAY_MS), to: dateOf(today) };
    },
    filters: async (c) => [
      { name: "figure" },
      { name: "from", label: "From (UTC)", type: "date" },
      { name: "to", label: "To, included (UTC)", type: "date" },
      ...(hasUnits
        ? [
            { name: "unit", label: "Unit", options: [ALL_UNITS, ...unitOptions(c.var.units)] },
            { name: "packId", label: "Pack", options: await packChoices(c) },
          ]
        : []),
    ],
    read: (c, form) => {
      const filters = readFigureFilters(form);
      return ({ cursor }) => read(c, filters, cursor);
    },
    empty: (_, { nextCursor }) =>
      nextCursor === null ? (
        <Empty icon="search" title="Nothing in these days">
          Change the days, the unit or the pack above.
        </Empty>
      ) : (
        <Empty icon="search" title="Nothing found so far">
          There are more entries to search.
        </Empty>
      ),
    words: ["First page", "Next page"],
  });

const ABOUT_ENTRIES = `Entries by user. Their sum may be below the figure: recurring grants to users who did nothing else since are
  not listed, and users who were erased soon after may be missing. Users are found by their activity, which is approximate. A page
  searches ${EXAMINED_USERS_MAX} users and ${EXAMINED_ENTRIES_MAX} entries.`;

const entriesFigure = (kind: EntriesOf, title: string, about = "") =>
  figure<FoundEntry>({
    title,
    about: `${about}${ABOUT_ENTRIES}`,
    hasUnits: true,
    columns: [
      customColumn(
        "occurredAt",
        "When",
        ({ occurredAtMs, userId, balanceId }) => {
          const reason = { refunded: "admin_adjust", granted: "grant", spent: "event_committed" }[kind];
          const day = dateOf(occurredAtMs);
          return (
            <AppLink class="num" to="users" fields={{ userId, balanceId, reason, from: day, to: day }} hash="ledger">
              <Time at={iso(occurredAtMs)} />
            </AppLink>
          );
        },
        ({ occurredAtMs }) => iso(occurredAtMs),
      ),
      userColumn("userId", "User"),
      {
        name: "change",
        head: numberHead("Change"),
        cell: ({ unit, deltaMinor }) => (
          <span class={deltaMinor > 0 ? "num plus" : "num"}>
            <UnitChange of={fromMinor(unit, deltaMinor)} unit={unit} />
          </span>
        ),
        value: ({ unit, deltaMinor }) => fromMinor(unit, deltaMinor),
        sortKey: ({ unit, deltaMinor }) => [unit, fromMinor(unit, deltaMinor)],
      },
      packColumn,
      balanceColumn,
      fieldColumn("note", "Source", ({ eventId, reservationId, note }) => (
        <>
          {eventId !== null && <EventLink id={eventId} />}{" "}
          {reservationId !== null && <ReservationLink id={reservationId} />} {note}
        </>
      )),
    ],
    read: async (c, filters, cursor) => {
      const { entries, nextCursor } = await findEntries(c.var.ctx, kind, filters, cursor);
      return { rows: entries, nextCursor };
    },
  });

const packColumn: ListColumn<{ packId: string; packName: string | null }> = fieldColumn(
  "packName",
  "Pack",
  ({ packId, packName }) => <AppLink to={`packs/${encodeURIComponent(packId)}`}>{packName ?? packId}</AppLink>,
);

const expiriesFigure = (includeSpent: boolean, title: string, about: string) =>
  figure<Awaited<ReturnType<typeof listExpiries>>["balances"][number]>({
    title,
    about: `${about} A page searches ${EXAMINED_EXPIRIES_MAX} balances.`,
    hasUnits: true,
    columns: [
      timeColumn("expiresAt", "Expires"),
      userColumn("userId", "User"),
      remainingColumn("Remaining"),
      packColumn,
      balanceColumn,
      tagColumn("status", "Status"),
    ],
    read: async ({ var: { ctx } }, { toMs, ...filters }, cursor) => {
      // A balance that has not expired yet does not count as expired.
      const until = includeSpent ? toMs : Math.min(toMs, ctx.now() + 1);
      const { balances, nextCursor } = await listExpiries(ctx, { ...filters, toMs: until, includeSpent }, cursor);
      return { rows: balances, nextCursor };
    },
  });

const linksFigure = (action: "minted" | "opened", title: string) =>
  figure<Awaited<ReturnType<typeof findLinks>>["links"][number]>({
    title,
    about: () =>
      `The audit of exports, by distinct id, which is exact. A page searches ${amountText(SEARCHED_LINKS_MAX)} of its rows. Where a person was erased, the id is a hash.`,
    columns: [
      timeColumn("occurredAt", "When"),
      fieldColumn("distinctId", "Distinct id", ({ distinctId }) => <PersonLink id={distinctId} />),
      shownColumn("link", "Link", ({ tokenHash }) => tokenHash.slice(0, 8)),
      shownColumn("by", "By", ({ keyId }) => (action === "minted" ? (keyId ?? "dashboard") : "link holder")),
    ],
    read: async (c, filters, cursor) => {
      const { links, nextCursor } = await findLinks(c.var.ctx, { ...filters, action }, cursor);
      return { rows: links, nextCursor };
    },
  });

const MONEY_DAYS_MAX = 1_000;

const FIGURES = {
  granted: entriesFigure("granted", "Granted"),
  spent: entriesFigure("spent", "Spent"),
  refunded: entriesFigure("refunded", "Refunded", "Taken back by refunds, and by refunds and disputes at Stripe. "),
  expired: expiriesFigure(false, "Expired", "Balances that expired with something left."),
  expiring: expiriesFigure(
    true,
    "Expiring",
    "Balances that were granted to expire on these days, with what remains of each.",
  ),
  money: figure<MoneyDay & { readonly left: number }>({
    title: "Money by day",
    about:
      "All payments at Stripe, each amount on the day of Stripe's event. A negative amount was given back: a failed refund, or a dispute that was won. At most the newest 1,000 days.",
    columns: [
      shownColumn("date", "Day (UTC)", ({ date }) => date),
      shownColumn("currency", "Currency", ({ currency }) => currency.toUpperCase()),
      moneyColumn("captured", "Paid"),
      rare(moneyColumn("refunded", "Refunded")),
      rare(moneyColumn("withheld", "Withheld")),
      moneyColumn("left", "Net"),
    ],
    read: async (c, { fromMs, toMs }) => {
      const count = Math.min((toMs - fromMs) / DAY_MS, MONEY_DAYS_MAX);
      const money = await readMoneyDays(c.var.ctx, toMs - count * DAY_MS, count);
      const rows = money
        .toSorted((a, b) => b.date.localeCompare(a.date))
        .map((day) => ({ ...day, left: day.captured - day.refunded - day.withheld }));
      return { rows, nextCursor: null };
    },
  }),
  minted: linksFigure("minted", "Export links created"),
  opened: linksFigure("opened", "Export links opened"),
} as const;
export type FigureName = keyof typeof FIGURES;

const isFigure = (name: string): name is FigureName => Object.hasOwn(FIGURES, name);

const dateOf = (atMs: number): string => iso(atMs).slice(0, 10);

interface FigureLink {
  readonly unit?: string | null;
  readonly packId?: string;
  /** Days such as `2026-01-15`, both included. */
  readonly from: string;
  readonly to: string;
}

/** Returns the page that lists the entries of a figure of the overview. */
export const figurePath = (figure: FigureName, { unit, packId, from, to }: FigureLink): string =>
  `figures${queryString({ figure, unit: unit ?? undefined, packId, from, to })}`;

/** Returns the days of the form, both included. */
function readFigureFilters(form: Form): FigureFilters {
  const dayOf = (name: string): number => {
    const atMs = Date.parse(timeField(form, name) ?? "");
    if (Number.isNaN(atMs)) throw invalid(name, "must be a date such as 2026-01-31");
    return atMs;
  };
  const [fromMs, lastMs] = [dayOf("from"), dayOf("to")];
  if (fromMs > lastMs) throw invalid("to", "must not be before the first day");
  const unit = UNITS.find((each) => each === form.unit);
  return { unit, packId: textField(form, "packId"), fromMs, toMs: lastMs + DAY_MS };
}

const handlersOf = (c: PageContext) => {
  const { figure = "" } = c.req.query();
  return FIGURES[isFigure(figure) ? figure : "granted"];
};

export const figuresRoutes = createDashboardRoutes()
  .get("/figures", (c) => handlersOf(c).page(c))
  .get("/figures.csv", (c) => handlersOf(c).csv(c));

import type { Context } from "hono";
import type { Child } from "hono/jsx";
import { fromMinor, UNITS } from "../books/amounts/amount.ts";
import {
  type EntriesOf,
  EXAMINED_ENTRIES_MAX,
  EXAMINED_EXPIRIES_MAX,
  EXAMINED_USERS_MAX,
  findEntries,
  listExpiries,
} from "../books/credits/find-entries.ts";
import { listPacks } from "../catalog/pack.ts";
import { invalid } from "../errors.ts";
import { findLinks, SEARCHED_LINKS_MAX } from "../exports/export-audit.ts";
import { DAY_MS, iso } from "../lib/time.ts";
import { readMoneyDays } from "../payments/money-days.ts";
import { Empty, type NumberHead, numberHead, Pager, Table, Tag } from "./components.tsx";
import { Choice, Field, Hidden } from "./fields.tsx";
import { catchRejection, createDashboardRoutes, type DashboardEnv, type Form, textField, timeField } from "./form.ts";
import { amountText, moneyText, queryString, signed, Time } from "./format.tsx";
import { page, pathIn } from "./layout.tsx";
import { BalanceLink, EventLink, PersonLink, ReservationLink, UserLink } from "./links.tsx";
import { SHOWN_PACKS_MAX } from "./packs.tsx";
import { UnitAmount, UnitLabel } from "./unit-amount.tsx";

interface FigureFilters {
  readonly unit: string | undefined;
  readonly packId: string | undefined;
  readonly fromMs: number;
  readonly toMs: number;
}

interface FigurePage {
  readonly head: readonly (string | NumberHead)[];
  readonly rows: readonly (readonly Child[])[];
  readonly nextCursor: string | null;
}

type FigureReader = (
  c: Context<DashboardEnv>,
  filters: FigureFilters,
  cursor: string | undefined,
) => Promise<FigurePage>;

interface FigureList {
  readonly title: string;
  /**
   * Describes the list, and the entries that may be missing. A function if it formats a number: creating formats is slow, so
   * none is created at the start.
   */
  readonly about: string | (() => string);
  readonly read: FigureReader;
  readonly hasUnits: boolean;
}

const ABOUT_ENTRIES = `Entries by user. The entries are exact. Users are found by their activity, which is approximate, so some
  may be missing. A page searches ${EXAMINED_USERS_MAX} users and ${EXAMINED_ENTRIES_MAX} entries.`;
const FIGURES = {
  granted: { title: "Granted", about: ABOUT_ENTRIES, read: entriesReader("granted"), hasUnits: true },
  spent: { title: "Spent", about: ABOUT_ENTRIES, read: entriesReader("spent"), hasUnits: true },
  refunded: {
    title: "Refunded",
    about: `Taken back by refunds, and by refunds and disputes at Stripe. ${ABOUT_ENTRIES}`,
    read: entriesReader("refunded"),
    hasUnits: true,
  },
  expired: {
    title: "Expired",
    about: `Balances that expired with something left. A page searches ${EXAMINED_EXPIRIES_MAX} balances.`,
    read: expiriesReader(false),
    hasUnits: true,
  },
  expiring: {
    title: "Expiring",
    about: `Balances that were granted to expire on these days, with what remains of each. A page searches
      ${EXAMINED_EXPIRIES_MAX} balances.`,
    read: expiriesReader(true),
    hasUnits: true,
  },
  money: {
    title: "Money by day",
    about: `All payments at Stripe, each amount on the day of Stripe's event. A negative amount was given back: a failed refund, or a
      dispute that was won.`,
    read: readMoney,
    hasUnits: false,
  },
  minted: { title: "Export links created", about: aboutLinks, read: linksReader("minted"), hasUnits: false },
  opened: { title: "Export links opened", about: aboutLinks, read: linksReader("opened"), hasUnits: false },
} as const satisfies Readonly<Record<string, FigureList>>;
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

function aboutLinks(): string {
  return `The audit of exports, by distinct id, which is exact. A page searches ${amountText(SEARCHED_LINKS_MAX)} of its rows.
    Where a person was erased, the id is a hash.`;
}

function entriesReader(kind: EntriesOf): FigureReader {
  return async (c, filters, cursor) => {
    const { entries, nextCursor } = await findEntries(c.var.ctx, kind, filters, cursor);
    const reason = kind === "refunded" ? "admin_adjust" : kind === "granted" ? "grant" : "event_committed";
    const rows = entries.map((entry): Child[] => {
      const day = dateOf(entry.occurredAtMs);
      const ledger = queryString({ userId: entry.userId, balanceId: entry.balanceId, reason, from: day, to: day });
      return [
        <a class="num" href={`${pathIn(c, "users")}${ledger}#ledger`}>
          <Time at={iso(entry.occurredAtMs)} />
        </a>,
        <UserLink c={c} id={entry.userId} />,
        <span class={entry.deltaMinor > 0 ? "num plus" : "num"}>
          {signed(fromMinor(entry.unit, entry.deltaMinor))} <UnitLabel unit={entry.unit} />
        </span>,
        <a href={pathIn(c, `packs/${encodeURIComponent(entry.packId)}`)}>{entry.packName ?? entry.packId}</a>,
        <BalanceLink c={c} id={entry.balanceId} />,
        <>
          {entry.eventId !== null && <EventLink c={c} id={entry.eventId} />}{" "}
          {entry.reservationId !== null && <ReservationLink c={c} id={entry.reservationId} />} {entry.note}
        </>,
      ];
    });
    return { head: ["When", "User", numberHead("Change"), "Pack", "Balance", "Source"], rows, nextCursor };
  };
}

function expiriesReader(includeSpent: boolean): FigureReader {
  return async (c, { toMs, ...filters }, cursor) => {
    // A balance that has not expired yet does not count as expired.
    const until = includeSpent ? toMs : Math.min(toMs, c.var.ctx.now() + 1);
    const { balances, nextCursor } = await listExpiries(c.var.ctx, { ...filters, toMs: until, includeSpent }, cursor);
    const rows = balances.map((balance): Child[] => [
      <Time at={balance.expiresAt} />,
      <UserLink c={c} id={balance.userId} />,
      <span class="num">
        {amountText(balance.remaining)} of <UnitAmount of={balance.initial} unit={balance.unit} />
      </span>,
      <a href={pathIn(c, `packs/${encodeURIComponent(balance.packId)}`)}>{balance.packName}</a>,
      <BalanceLink c={c} id={balance.balanceId} />,
      <Tag kind={balance.status}>{balance.status}</Tag>,
    ]);
    return { head: ["Expires", "User", numberHead("Remaining"), "Pack", "Balance", "Status"], rows, nextCursor };
  };
}

const MONEY_DAYS_MAX = 1_000;

/** Shows at most 1,000 days, the newest. */
async function readMoney(c: Context<DashboardEnv>, { fromMs, toMs }: FigureFilters): Promise<FigurePage> {
  const count = Math.min((toMs - fromMs) / DAY_MS, MONEY_DAYS_MAX);
  const money = await readMoneyDays(c.var.ctx, toMs - count * DAY_MS, count);
  const rows = money
    .toSorted((a, b) => b.date.localeCompare(a.date))
    .map(({ date, currency, captured, refunded, withheld }): Child[] => [
      date,
      currency.toUpperCase(),
      ...[captured, refunded, withheld, captured - refunded - withheld].map((amount) => moneyText(amount, currency)),
    ]);
  const numbers = ["Paid", "Refunded", "Withheld", "Left"].map(numberHead);
  return { head: ["Day (UTC)", "Currency", ...numbers], rows, nextCursor: null };
}

function linksReader(action: "minted" | "opened"): FigureReader {
  return async (c, filters, cursor) => {
    const { links, nextCursor } = await findLinks(c.var.ctx, { ...filters, action }, cursor);
    const rows = links.map((link): Child[] => [
      <Time at={link.occurredAt} />,
      <PersonLink c={c} id={link.distinctId} />,
      <code>{link.tokenHash.slice(0, 8)}</code>,
      action === "minted" ? <code>{link.keyId ?? "dashboard"}</code> : "link holder",
    ]);
    return { head: ["When", "Distinct id", "Link", "By"], rows, nextCursor };
  };
}

/** Returns the days of the form, both included; by default the last 30. */
function readFigureFilters(form: Form, nowMs: number): FigureFilters {
  const dayOf = (name: string): number | undefined => {
    const text = timeField(form, name);
    const atMs = text === undefined ? undefined : Date.parse(text);
    if (Number.isNaN(atMs)) throw invalid(name, "must be a date such as 2026-01-31");
    return atMs;
  };
  const lastMs = dayOf("to") ?? Math.floor(nowMs / DAY_MS) * DAY_MS;
  const fromMs = dayOf("from") ?? lastMs - 29 * DAY_MS;
  if (fromMs > lastMs) throw invalid("to", "must not be before the first day");
  const unit = UNITS.find((each) => each === form.unit);
  return { unit, packId: textField(form, "packId"), fromMs, toMs: lastMs + DAY_MS };
}

async function figuresPage(c: Context<DashboardEnv>) {
  const form = c.req.query();
  const requestedFigure = form.figure ?? "";
  const name = isFigure(requestedFigure) ? requestedFigure : "granted";
  const { title, about, read, hasUnits }: FigureList = FIGURES[name];
  const found = await catchRejection(async () => {
    const filters = readFigureFilters(form, c.var.ctx.now());
    return { filters, list: await read(c, filters, textField(form, "cursor")) };
  });
  const { unit, packId, fromMs, toMs } = found.result?.filters ?? {};
  const from = fromMs === undefined ? form.from : dateOf(fromMs);
  const to = toMs === undefined ? form.to : dateOf(toMs - DAY_MS);
  const { packs } = hasUnits
    ? await listPacks(c.var.root, c.var.ctx.environment.appId, SHOWN_PACKS_MAX)
    : { packs: [] };
  const link = (cursor?: string) =>
    `${pathIn(c, "figures")}${queryString({ figure: name, unit, packId, from, to, cursor })}`;
  const { head = [], rows = [], nextCursor = null } = found.result?.list ?? {};
  return page(
    c,
    { title, section: "overview", rejection: found.rejection },
    <>
      <form method="get" action={pathIn(c, "figures")} class="card row">
        <Hidden fields={{ figure: name }} />
        <Field label="From (UTC)" name="from" type="date" value={from} rejection={found.rejection} />
        <Field label="To, included (UTC)" name="to" type="date" value={to} rejection={found.rejection} />
        {hasUnits && (
          <>
            <Choice
              label="Unit"
              name="unit"
              value={unit ?? ""}
              options={[["", "all"], ...UNITS.map((each) => [each, each] as const)]}
            />
            <Choice
              label="Pack"
              name="packId"
              value={packId ?? ""}
              options={[["", "all"], ...packs.map((pack) => [pack.packId, pack.packName] as const)]}
            />
          </>
        )}
        <button type="submit">Show</button>
      </form>
      <section class="card">
        <p class="soft">{typeof about === "string" ? about : about()}</p>
        <Table
          label={title}
          head={head}
          empty={<NoneFound next={nextCursor && link(nextCursor)} />}
          rows={rows}
          csv={name}
        />
        <Pager
          first={form.cursor === undefined ? null : link()}
          next={rows.length === 0 ? null : nextCursor && link(nextCursor)}
          words={["First page", "Next page"]}
        />
        <p>
          <a href={pathIn(c, "overview")}>Back to the overview</a>
        </p>
      </section>
    </>,
  );
}

/** Says what was searched, and links to the next page if there is more. */
const NoneFound = ({ next }: { next: string | null }) =>
  next === null ? (
    <Empty icon="search" title="Nothing in these days">
      Change the days, the unit or the pack above.
    </Empty>
  ) : (
    <Empty icon="search" title="Nothing found so far">
      There are more entries to search.{" "}
      <a class="button quiet small" href={next}>
        Continue
      </a>
    </Empty>
  );

export const figuresRoutes = createDashboardRoutes().get("/figures", figuresPage);

import type { Child } from "hono/jsx";
import { exactAmount, minorOfExact, UNITS, type Unit } from "../books/amounts/amount.ts";
import { CLOSES_AFTER_MS, type StatementLineOutput } from "../books/statements/monthly-statements.ts";
import { DAY_MS, iso } from "../lib/time.ts";
import { AppLink } from "./app-link.tsx";
import { SubmitButton, Tabs } from "./components.tsx";
import type { Figure } from "./figures/read.ts";
import { type FigureName, figurePath } from "./figures.tsx";
import { useRequest } from "./form.ts";
import { AppForm } from "./form-card.tsx";
import { amountText, Time, Updated } from "./format.tsx";
import { type OverviewProps, spanOf } from "./read-overview.ts";
import { STATEMENT_TERMS } from "./statements.tsx";
import { UnitLabel } from "./unit-amount.tsx";

interface EquationTableProps {
  readonly units: readonly Unit[];
  /** The last row is the total. Each row has a cell for each unit. */
  readonly rows: readonly { readonly label: string; readonly cells: readonly Child[] }[];
}

/** Shows how amounts lead from the first row to the last, with a column for each unit. */
const EquationTable = ({ units, rows }: EquationTableProps) => (
  <div class="scroll">
    <table class="equation">
      <thead>
        <tr>
          <th scope="col">Credits</th>
          {units.map((unit) => (
            <th scope="col" class="end">
              <UnitLabel unit={unit} />
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {rows.map(({ label, cells }, index) => (
          <tr class={index === rows.length - 1 ? "total" : undefined}>
            <th scope="row">{label}</th>
            {cells.map((cell) => (
              <td class="end">{cell}</td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  </div>
);

interface TermProps {
  readonly unit: Unit;
  readonly sign: 1 | -1;
  readonly minor: bigint;
  /** The path of the page that lists its entries. */
  readonly to: string | undefined;
}

/**
 * Shows a term with its sign. A term of 0 has no link, because its list is empty, and neither has an amount below 0, which comes from
 * balances that expired earlier.
 */
const Term = ({ unit, sign, minor, to }: TermProps) => {
  if (minor === 0n) return <>0</>;
  const isAdded = BigInt(sign) * minor > 0n;
  const text = `${isAdded ? "+" : "−"}${amountText(exactAmount(unit, minor > 0n ? minor : -minor))}`;
  return to === undefined || minor < 0n ? <span>{text}</span> : <AppLink to={to}>{text}</AppLink>;
};

interface EquationTerm {
  readonly label: string;
  readonly sign: 1 | -1;
  readonly name: "granted" | "spent" | "refunded" | "restored" | "revoked" | "adjusted" | "erased" | "expired";
  /** The figure that lists its entries. */
  readonly figure?: FigureName;
  /** Shown only where it is not 0. */
  readonly isRare?: boolean;
}

const EQUATION_TERMS: readonly EquationTerm[] = [
  { label: "Granted", sign: 1, name: "granted", figure: "granted" },
  { label: "Spent", sign: -1, name: "spent", figure: "spent" },
  { label: "Returned", sign: -1, name: "refunded", figure: "refunded" },
  { label: "Restored to payments", sign: 1, name: "restored", isRare: true },
  { label: "Revoked", sign: -1, name: "revoked", isRare: true },
  { label: "Adjusted", sign: 1, name: "adjusted", isRare: true },
  { label: "Erased", sign: -1, name: "erased", isRare: true },
  { label: "Expired", sign: -1, name: "expired", figure: "expired" },
];

/** Returns a unit's sum in minor units. Doubles would leave errors below the smallest one. */
function minorOfFigures(figures: readonly Pick<Figure, "unit" | "days">[], unit: Unit): bigint {
  const days = figures.find((each) => each.unit === unit)?.days ?? [];
  return days.reduce((sum, { value }) => sum + minorOfExact(unit, value), 0n);
}

/** Shows how the outstanding amount came about, and the newest statement if there is one. */
export const Reconciliation = ({ overview }: OverviewProps) => {
  const equation = <Equation overview={overview} />;
  if (overview.statement === null) return equation;
  const tabs = [
    { id: "until-now", name: "Until now", children: equation },
    { id: "newest-statement", name: "Newest statement", children: <ClosedMonth overview={overview} /> },
  ];
  return <Tabs label="Credits" tabs={tabs} />;
};

/** Shows how the outstanding amount came about. The first row is computed from the others. */
const Equation = ({ overview }: OverviewProps) => {
  const { days, firstMs, outstanding, business } = overview;
  const closing = outstanding?.amounts ?? business?.outstanding;
  if (closing === undefined) return null;
  const expired = business?.expired(firstMs, days) ?? [];
  const expiredIn = outstanding?.expiredIn ?? ((unit: Unit) => minorOfFigures(expired, unit));
  const columns = UNITS.map((unit) => {
    const terms = {
      granted: minorOfFigures(overview.granted.now, unit),
      spent: minorOfFigures(overview.spent.now, unit),
      refunded: minorOfFigures(overview.refunded, unit),
      restored: minorOfFigures(overview.restored, unit),
      revoked: minorOfFigures(overview.revoked, unit),
      adjusted: minorOfFigures(overview.adjusted, unit),
      erased: minorOfFigures(overview.erased, unit),
      expired: expiredIn(unit) + minorOfFigures(overview.expired, unit),
    };
    const end = minorOfExact(unit, closing.find((each) => each.unit === unit)?.amount ?? 0);
    const change = EQUATION_TERMS.reduce((sum, { sign, name }) => sum + BigInt(sign) * terms[name], 0n);
    return { unit, terms, end, start: end - change };
  }).filter(({ terms, end, start }) => [end, start, ...Object.values(terms)].some((minor) => minor !== 0n));
  if (columns.length === 0) return null;
  const shown = EQUATION_TERMS.filter(({ name, isRare }) => !isRare || columns.some(({ terms }) => terms[name] !== 0n));
  const link = (name: FigureName, unit: string) => figurePath(name, { unit, ...spanOf(overview) });
  const rows = shown.map(({ label, sign, name, figure }) => ({
    label,
    cells: columns.map(({ unit, terms }) => (
      <Term unit={unit} sign={sign} minor={terms[name]} to={figure && link(figure, unit)} />
    )),
  }));
  return (
    <section class="card" id="equation">
      <div class="card-head">
        <h2>From {spanOf(overview).from} to now</h2>
        {outstanding === null && business !== null && (
          <Updated at={business.finishedAt} what="Outstanding and expired" />
        )}
      </div>
      <EquationTable
        units={columns.map(({ unit }) => unit)}
        rows={[
          {
            label: "Outstanding at the start",
            cells: columns.map(({ unit, start }) => amountText(exactAmount(unit, start))),
          },
          ...rows,
          {
            label: outstanding === null ? "Outstanding" : "Outstanding now",
            cells: columns.map(({ unit, end }) => amountText(exactAmount(unit, end))),
          },
        ]}
      />
      <p class="soft">
        Outstanding amounts include holds. The first line is computed from the others
        {outstanding === null && ", so it differs by what changed since the update"}. A{" "}
        <AppLink to="statements">statement</AppLink> of a month is exact.
      </p>
      {overview.statement === null && <MakeStatement overview={overview} />}
    </section>
  );
};

/** Returns the month before that of a moment, such as `2026-10`. */
function monthBefore(atMs: number): string {
  const now = new Date(atMs);
  return iso(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() - 1)).slice(0, 7);
}

const daysOfMonth = (month: string) => {
  const [year = 0, number = 0] = month.split("-").map(Number);
  return { from: `${month}-01`, to: iso(Date.UTC(year, number) - DAY_MS).slice(0, 10) };
};

/** Offers to make the statement of the last month, unless it is the newest, or the month has not closed. */
const MakeStatement = ({ overview: { statement } }: OverviewProps) => {
  const nowMs = useRequest().var.ctx.now();
  const month = monthBefore(nowMs);
  return statement?.month === month || monthBefore(nowMs - CLOSES_AFTER_MS) !== month ? null : (
    <AppForm action="statements" fields={{ month }}>
      <SubmitButton text={`Make the statement of ${month}`} kind="quiet" />
    </AppForm>
  );
};

/** Shows the newest statement by unit. The statement balances exactly. */
const ClosedMonth = ({ overview }: OverviewProps) => {
  const { statement } = overview;
  if (statement === null) return null;
  const { month, lines, madeAt, statementId } = statement;
  return (
    <section class="card" id="closed-month">
      <div class="card-head">
        <h2>Month {month}</h2>
        <p class="soft">
          Exact. Made <Time at={madeAt} otherwise="soon: it is being made" />.{" "}
          <AppLink to={`statements/${statementId}`}>By pack</AppLink>
        </p>
      </div>
      {lines !== null && <StatementLines month={month} lines={lines} />}
      <MakeStatement overview={overview} />
    </section>
  );
};

interface StatementLinesProps {
  readonly month: string;
  readonly lines: readonly StatementLineOutput[];
}

const StatementLines = ({ month, lines }: StatementLinesProps) => {
  const units = UNITS.filter((unit) => lines.some((line) => line.unit === unit));
  if (units.length === 0) return <p class="empty">Nothing was granted, spent or left in this month.</p>;
  /** In minor units, because a sum may have more digits than a double. */
  const sum = (unit: Unit, of: (line: StatementLineOutput) => number): bigint =>
    lines.reduce((total, line) => (line.unit === unit ? total + minorOfExact(unit, of(line)) : total), 0n);
  const total = (of: (line: StatementLineOutput) => number) =>
    units.map((unit) => amountText(exactAmount(unit, sum(unit, of))));
  const terms = STATEMENT_TERMS.filter(({ of }) => units.some((unit) => sum(unit, of) !== 0n));
  return (
    <EquationTable
      units={units}
      rows={[
        { label: "Opening", cells: total(({ opening }) => opening) },
        ...terms.map(({ label, sign, of, figure }) => ({
          label,
          cells: units.map((unit) => (
            <Term
              unit={unit}
              sign={sign}
              minor={sum(unit, of)}
              to={figure && figurePath(figure, { unit, ...daysOfMonth(month) })}
            />
          )),
        })),
        { label: "Closing", cells: total(({ closing }) => closing) },
      ]}
    />
  );
};

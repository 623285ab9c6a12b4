import type { Context } from "hono";
import { exactAmount, stepsOfExact, UNITS, type Unit } from "../books/amounts/amount.ts";
import type { StatementLineOutput } from "../books/statements/responses.ts";
import { DAY_MS, iso } from "../lib/time.ts";
import { Empty } from "./components.tsx";
import { Hidden } from "./fields.tsx";
import { type FigureName, figurePath } from "./figures.tsx";
import type { DashboardEnv } from "./form.ts";
import { amountText, Time } from "./format.tsx";
import { FormToken, pathIn } from "./layout.tsx";
import type { Overview } from "./read-overview.ts";

interface StatementTerm {
  readonly label: string;
  readonly sign: 1 | -1;
  readonly of: (line: StatementLineOutput) => number;
  readonly figure?: FigureName;
}

const STATEMENT_TERMS: readonly StatementTerm[] = [
  { label: "Purchases", sign: 1, of: ({ granted }) => granted.purchase },
  { label: "Payments", sign: 1, of: ({ granted }) => granted.payment },
  { label: "Recurring grants", sign: 1, of: ({ granted }) => granted.recurring },
  { label: "Grants", sign: 1, of: ({ granted }) => granted.grant },
  { label: "Refund grants", sign: 1, of: ({ granted }) => granted.refund },
  { label: "Granted by hand", sign: 1, of: ({ granted }) => granted.manual },
  { label: "Spent", sign: -1, of: ({ spent }) => spent, figure: "spent" },
  { label: "Refunded", sign: -1, of: ({ refunded }) => refunded, figure: "refunded" },
  { label: "Taken back by payments", sign: -1, of: ({ taken }) => taken, figure: "refunded" },
  { label: "Restored to payments", sign: 1, of: ({ restored }) => restored },
  { label: "Revoked", sign: -1, of: ({ revoked }) => revoked },
  { label: "Adjusted", sign: 1, of: ({ adjusted }) => adjusted },
  { label: "Erased", sign: -1, of: ({ erased }) => erased },
  { label: "Expired", sign: -1, of: ({ expired }) => expired, figure: "expired" },
];

/** Returns the month before that of a moment, such as `2026-10`. */
function monthBefore(atMs: number): string {
  const now = new Date(atMs);
  return iso(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() - 1)).slice(0, 7);
}

const daysOfMonth = (month: string) => {
  const [year = 0, number = 0] = month.split("-").map(Number);
  return { from: `${month}-01`, to: iso(Date.UTC(year, number) - DAY_MS).slice(0, 10) };
};

interface ClosedMonthProps {
  readonly c: Context<DashboardEnv>;
  readonly overview: Overview;
}

/** Shows the newest statement by unit. The statement balances exactly. Offers to make the statement of the last month. */
export const ClosedMonth = ({ c, overview: { statement } }: ClosedMonthProps) => {
  const month = monthBefore(c.var.ctx.now());
  return (
    <section class="card" id="closed-month">
      <div class="card-head">
        <h2>{statement === null ? "The last closed month" : `Month ${statement.month}`}</h2>
        {statement !== null && (
          <p class="soft">
            Exact. Made <Time at={statement.madeAt} otherwise="soon: it is being made" />.{" "}
            <a href={pathIn(c, `statements/${statement.statementId}`)}>By pack</a>
          </p>
        )}
      </div>
      {statement?.lines != null && <Lines c={c} month={statement.month} lines={statement.lines} />}
      {statement === null && (
        <Empty icon="book" title="No month is closed yet">
          Opening and closing amounts of a month are known once its statement is made.
        </Empty>
      )}
      {statement?.month !== month && (
        <form method="post" action={pathIn(c, "statements")}>
          <FormToken c={c} />
          <Hidden fields={{ month }} />
          <button type="submit" class="quiet">
            Make the statement of {month}
          </button>
        </form>
      )}
    </section>
  );
};

interface LinesProps {
  readonly c: Context<DashboardEnv>;
  readonly month: string;
  readonly lines: readonly StatementLineOutput[];
}

const Lines = ({ c, month, lines }: LinesProps) => {
  const units = UNITS.filter((unit) => lines.some((line) => line.unit === unit));
  /** In steps, because a sum may have more digits than a double. */
  const sum = (unit: Unit, of: StatementTerm["of"]): bigint =>
    lines.reduce((total, line) => (line.unit === unit ? total + stepsOfExact(unit, of(line)) : total), 0n);
  if (units.length === 0) return <p class="empty">Nothing was granted, spent or left in this month.</p>;
  return (
    <div class="scroll">
      <table class="equation">
        <thead>
          <tr>
            <th scope="col">Credits</th>
            {units.map((unit) => (
              <th scope="col" class="end">
                {unit}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          <tr>
            <th scope="row">Opening</th>
            {units.map((unit) => (
              <td class="end">
                {amountText(
                  exactAmount(
                    unit,
                    sum(unit, ({ opening }) => opening),
                  ),
                )}
              </td>
            ))}
          </tr>
          {STATEMENT_TERMS.filter(({ of }) => units.some((unit) => sum(unit, of) !== 0n)).map(
            ({ label, sign, of, figure }) => (
              <tr>
                <th scope="row">{label}</th>
                {units.map((unit) => {
                  const value = sum(unit, of);
                  // An amount below 0 comes from balances that expired earlier, and has no list.
                  const isListed = figure !== undefined && value > 0n;
                  const href = isListed ? pathIn(c, figurePath(figure, { unit, ...daysOfMonth(month) })) : undefined;
                  return (
                    <td class="end">
                      <StatementSum unit={unit} steps={BigInt(sign) * value} href={href} />
                    </td>
                  );
                })}
              </tr>
            ),
          )}
          <tr class="total">
            <th scope="row">Closing, including holds</th>
            {units.map((unit) => (
              <td class="end">
                {amountText(
                  exactAmount(
                    unit,
                    sum(unit, ({ closing }) => closing),
                  ),
                )}
              </td>
            ))}
          </tr>
        </tbody>
      </table>
    </div>
  );
};

/** Shows a sum with its sign. */
const StatementSum = ({ unit, steps, href }: { unit: Unit; steps: bigint; href: string | undefined }) => {
  if (steps === 0n) return <>0</>;
  const text = `${steps > 0n ? "+" : "−"}${amountText(exactAmount(unit, steps > 0n ? steps : -steps))}`;
  return href === undefined ? <span>{text}</span> : <a href={href}>{text}</a>;
};

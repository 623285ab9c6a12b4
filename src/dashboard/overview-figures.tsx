import type { Context } from "hono";
import type { Child } from "hono/jsx";
import { UNITS } from "../books/amounts/amount.ts";
import { DAY_MS, iso } from "../lib/time.ts";
import type { Figure } from "./figures/read.ts";
import type { Business } from "./figures/read-business.ts";
import { type FigureName, figurePath } from "./figures.tsx";
import type { DashboardEnv } from "./form.ts";
import { amountText, moneyText, shortAmount, Updated } from "./format.tsx";
import { Icon } from "./icons.tsx";
import { pathIn } from "./layout.tsx";
import { type Overview, sumOfUnit, type TwoSpans } from "./read-overview.ts";

interface FiguresProps {
  readonly c: Context<DashboardEnv>;
  readonly overview: Overview;
}

/** Shows the change of a figure against the previous period. Shows nothing when that period has no figure. */
const Delta = ({ now, before, days }: { now: number; before: number; days: number }) => {
  if (before <= 0) return null;
  const percent = Math.round(((now - before) / before) * 100);
  const title = `${amountText(before)} in the ${days} days before`;
  return (
    <span class="delta" title={title}>
      {percent !== 0 && <Icon name={percent > 0 ? "up" : "down"} />}
      {percent === 0 ? "as before" : `${percent > 0 ? "+" : "−"}${Math.abs(percent)} %`}
    </span>
  );
};

const Card = ({ title, href, children }: { title: string; href?: string; children: Child }) => (
  <div class="figure">
    <h3>
      {href === undefined ? (
        title
      ) : (
        <a class="figure-link" href={href}>
          {title}
        </a>
      )}
    </h3>
    {children}
  </div>
);

/** Shows a value in its unit, with the exact value on hover. */
const FigureValue = ({ value, unit, children }: { value: number; unit: string; children?: Child }) => (
  <p>
    <span class="value" title={`${amountText(value)} ${unit}`}>
      {shortAmount(value)} <small>{unit}</small>
    </span>{" "}
    {children}
  </p>
);

/** Shows money and credits in the period, the outstanding credits, and the users. */
export const Headline = ({ c, overview }: FiguresProps) => {
  const { days, granted, spent, outstanding, business } = overview;
  const active = business?.active.find((each) => each.days === days);
  const users = outstanding?.users ?? business?.users;
  return (
    <section class="figures" aria-label="Key figures">
      <Revenue c={c} overview={overview} />
      <ByUnit
        c={c}
        title={`Granted, ${days} days`}
        figure="granted"
        spans={granted}
        sold={overview.sold}
        overview={overview}
      />
      <ByUnit c={c} title={`Spent, ${days} days`} figure="spent" spans={spent} overview={overview} />
      <Outstanding c={c} overview={overview} />
      <Card title="Users" href={pathIn(c, "users")}>
        {users === undefined ? <NotYet /> : <FigureValue value={users} unit="users" />}
        {active !== undefined && (
          <p class="soft">
            {amountText(active.users)} active in {days} days. Users with any activity. Approximate.
          </p>
        )}
      </Card>
    </section>
  );
};

const NotYet = () => <p class="soft">Not computed yet. It is computed every hour.</p>;

const Revenue = ({ c, overview }: FiguresProps) => {
  const { days, past, payments, isAllPayments } = overview;
  const from = Math.floor(past / DAY_MS) * DAY_MS;
  const before = from - days * DAY_MS;
  const oldest = payments.at(-1)?.createdAt;
  const known = isAllPayments || oldest === undefined ? 0 : Date.parse(oldest);
  const sums = (fromMs: number, toMs: number) => {
    const some = payments.filter(({ createdAt }) => Date.parse(createdAt) >= fromMs && Date.parse(createdAt) < toMs);
    const currencies = new Set(some.flatMap(({ currency }) => (currency === null ? [] : [currency])));
    return [...currencies].sort().map((currency) => {
      const of = some.filter((payment) => payment.currency === currency);
      return { currency, sum: of.reduce((sum, { captured, refunded }) => sum + captured - refunded, 0) };
    });
  };
  const now = sums(from, Number.POSITIVE_INFINITY);
  // The periods are compared only if all payments of both were read.
  const earlier = known <= before ? sums(before, from) : [];
  return (
    <Card title={`Revenue, ${days} days`} href={pathIn(c, "payments")}>
      {now.length === 0 && <p class="value">–</p>}
      {now.map(({ currency, sum }) => (
        <p>
          <span class="value">{moneyText(sum, currency)}</span>{" "}
          <Delta now={sum} before={earlier.find((each) => each.currency === currency)?.sum ?? 0} days={days} />
        </p>
      ))}
      <p class="soft">{known > from ? `Of the newest ${payments.length} payments` : "Paid at Stripe, less refunds"}</p>
    </Card>
  );
};

interface ByUnitProps extends FiguresProps {
  readonly title: string;
  readonly figure: "granted" | "spent";
  readonly spans: TwoSpans;
  /** The part of the amounts that was for purchases. */
  readonly sold?: readonly Figure[];
}

const ByUnit = ({ c, title, figure, spans, sold, overview }: ByUnitProps) => {
  const units = UNITS.filter((unit) => sumOfUnit(spans.now, unit) > 0);
  return (
    <Card title={title} href={pathIn(c, figurePath(figure, spanOf(overview)))}>
      {units.length === 0 && <p class="value">0</p>}
      {units.map((unit) => {
        const now = sumOfUnit(spans.now, unit);
        return (
          <FigureValue value={now} unit={unit}>
            <Delta now={now} before={sumOfUnit(spans.before, unit)} days={overview.days} />
            {sold !== undefined && sumOfUnit(sold, unit) > 0 && (
              <span class="delta">{shortAmount(sumOfUnit(sold, unit))} sold</span>
            )}
          </FigureValue>
        );
      })}
    </Card>
  );
};

const spanOf = ({ past, days }: Overview) => ({
  from: iso(past).slice(0, 10),
  to: iso(past + (days - 1) * DAY_MS).slice(0, 10),
});

/** Shows the credits that users can still spend, held ones included: as of now, or by the hourly figures. */
const Outstanding = ({ c, overview: { outstanding, business } }: FiguresProps) => {
  const amounts = outstanding?.amounts ?? business?.outstanding;
  return (
    <Card title="Outstanding" href={pathIn(c, "users")}>
      {amounts === undefined && <NotYet />}
      {amounts?.length === 0 && <p class="value">0</p>}
      {amounts?.map((each) => (
        <FigureValue value={each.amount} unit={each.unit}>
          {"held" in each && typeof each.held === "number" && each.held > 0 && (
            <span class="delta">{shortAmount(each.held)} held</span>
          )}
        </FigureValue>
      ))}
      {outstanding !== null ? <p class="soft">Now</p> : business !== null && <Updated at={business.finishedAt} />}
    </Card>
  );
};

/** Shows how the outstanding amount came about. Its first line is the difference between the others. */
export const Equation = ({ c, overview }: FiguresProps) => {
  const { days, past, outstanding, business } = overview;
  const closing = outstanding?.amounts ?? business?.outstanding;
  if (closing === undefined) return null;
  const expired = business?.expired(past, days) ?? [];
  const columns = UNITS.map((unit) => {
    const terms = {
      granted: sumOfUnit(overview.granted.now, unit),
      spent: sumOfUnit(overview.spent.now, unit),
      refunded: sumOfUnit(overview.refunded, unit),
      restored: sumOfUnit(overview.restored, unit),
      revoked: sumOfUnit(overview.revoked, unit),
      adjusted: sumOfUnit(overview.adjusted, unit),
      erased: sumOfUnit(overview.erased, unit),
      expired: expiredOf(expired, unit),
    };
    const end = closing.find((each) => each.unit === unit)?.amount ?? 0;
    const change = LINES.reduce((sum, { sign, name }) => sum + sign * terms[name], 0);
    return { unit, terms, end, start: roundTo(end - change) };
  }).filter(({ terms, end, start }) => end !== 0 || start !== 0 || Object.values(terms).some((term) => term !== 0));
  if (columns.length === 0) return null;
  const lines = LINES.filter(({ name, isRare }) => !isRare || columns.some(({ terms }) => terms[name] !== 0));
  const link = (name: FigureName, unit: string) => pathIn(c, figurePath(name, { unit, ...spanOf(overview) }));
  return (
    <section class="card" id="equation">
      <div class="card-head">
        <h2>From {spanOf(overview).from} to now</h2>
        {business !== null && <Updated at={business.finishedAt} what="Expired" />}
      </div>
      <div class="scroll">
        <table class="equation">
          <thead>
            <tr>
              <th scope="col">Credits</th>
              {columns.map(({ unit }) => (
                <th scope="col" class="end">
                  {unit}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            <tr>
              <th scope="row">Outstanding at the start</th>
              {columns.map(({ start }) => (
                <td class="end">{amountText(start)}</td>
              ))}
            </tr>
            {lines.map(({ label, sign, name, figure }) => (
              <tr>
                <th scope="row">{label}</th>
                {columns.map(({ unit, terms }) => (
                  <td class="end">
                    {name === "expired" && business === null ? (
                      <span class="soft">not known yet</span>
                    ) : (
                      <Term value={sign * terms[name]} href={figure && link(figure, unit)} />
                    )}
                  </td>
                ))}
              </tr>
            ))}
            <tr class="total">
              <th scope="row">{outstanding === null ? "Outstanding" : "Outstanding now, including holds"}</th>
              {columns.map(({ end }) => (
                <td class="end">{amountText(end)}</td>
              ))}
            </tr>
          </tbody>
        </table>
      </div>
      <p class="soft">
        The first line is what the others leave. Figures by day are approximate; a{" "}
        <a href={pathIn(c, "statements")}>statement</a> of a month is exact.
      </p>
    </section>
  );
};

interface Line {
  readonly label: string;
  readonly sign: 1 | -1;
  readonly name: "granted" | "spent" | "refunded" | "restored" | "revoked" | "adjusted" | "erased" | "expired";
  /** The figure that lists its entries. */
  readonly figure?: FigureName;
  /** Shown only where it is not 0. */
  readonly isRare?: boolean;
}

const LINES: readonly Line[] = [
  { label: "Granted", sign: 1, name: "granted", figure: "granted" },
  { label: "Spent", sign: -1, name: "spent", figure: "spent" },
  { label: "Returned: refunds and disputes", sign: -1, name: "refunded", figure: "refunded" },
  { label: "Restored to payments", sign: 1, name: "restored", isRare: true },
  { label: "Revoked", sign: -1, name: "revoked", isRare: true },
  { label: "Adjusted", sign: 1, name: "adjusted", isRare: true },
  { label: "Erased", sign: -1, name: "erased", isRare: true },
  { label: "Expired", sign: -1, name: "expired", figure: "expired" },
];

/** Shows a term with its sign. A term of 0 has no link, because its list is empty. */
const Term = ({ value, href }: { value: number; href?: string | undefined }) => {
  if (value === 0) return <>0</>;
  const text = `${value > 0 ? "+" : "−"}${amountText(Math.abs(value))}`;
  return href === undefined ? <span>{text}</span> : <a href={href}>{text}</a>;
};

/** Takes away what the addition of doubles leaves beyond the smallest step. */
const roundTo = (value: number): number => Math.round(value * 1e6) / 1e6;

function expiredOf(expired: ReturnType<Business["expired"]>, unit: string): number {
  const days = expired.find((each) => each.unit === unit)?.days ?? [];
  return days.reduce((sum, { value }) => sum + value, 0);
}

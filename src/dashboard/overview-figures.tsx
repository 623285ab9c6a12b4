import type { Child } from "hono/jsx";
import { UNITS } from "../books/amounts/amount.ts";
import { AppLink } from "./app-link.tsx";
import type { Figure } from "./figures/read.ts";
import { figurePath } from "./figures.tsx";
import { amountText, moneySumsText, moneyText, Updated } from "./format.tsx";
import { Icon } from "./icons.tsx";
import { type OverviewProps, spanOf, sumOfUnit, type TwoSpans } from "./read-overview.ts";
import { AmountList, ShortAmount, UnitAfter, useUnits } from "./unit-amount.tsx";

/** A figure more than so many times that of the previous period is not compared with it: that was nearly nothing. */
const COMPARED_TIMES_MAX = 10;

interface DeltaProps {
  readonly now: number;
  readonly before: number;
  readonly days: number;
  /** Returns an amount with its unit. */
  readonly textOf: (amount: number) => string;
}

/** Shows the change of a figure against the previous period, if both tell something. */
const Delta = ({ now, before, days, textOf }: DeltaProps) => {
  if (before <= 0 || now < 0 || now > COMPARED_TIMES_MAX * before) return null;
  const percent = Math.round(((now - before) / before) * 100);
  const title = `${textOf(before)} in the ${days} days before`;
  return (
    <span class="delta" title={title}>
      {percent !== 0 && <Icon name={percent > 0 ? "up" : "down"} />}
      {percent === 0 ? "as before" : `${percent > 0 ? "+" : "−"}${Math.abs(percent)} %`}
    </span>
  );
};

const FigureCard = ({ title, to, children }: { title: string; to: string; children: Child }) => (
  <div class="figure">
    <h3>
      <AppLink class="figure-link" to={to}>
        {title}
      </AppLink>
    </h3>
    {children}
  </div>
);

/** Shows a value in its unit, with the exact value on hover. */
const FigureValue = ({ value, unit, children }: { value: number; unit: string; children?: Child }) => (
  <p>
    <span class="value" title={useUnits()(unit, value)}>
      <ShortAmount of={value} unit={unit} />
      <small>
        <UnitAfter unit={unit} />
      </small>
    </span>{" "}
    {children}
  </p>
);

/** Shows money and credits in the period, the outstanding credits, and the users. */
export const Headline = ({ overview }: OverviewProps) => {
  const { days, granted, spent, outstanding, business } = overview;
  const active = business?.active.find((each) => each.days === days);
  const users = outstanding?.users ?? business?.users;
  return (
    <section class="figures" aria-label="Key figures">
      <Revenue overview={overview} />
      <ByUnit
        title={`Granted, ${days} days`}
        figure="granted"
        spans={granted}
        sold={overview.sold}
        overview={overview}
      />
      <ByUnit title={`Spent, ${days} days`} figure="spent" spans={spent} overview={overview} />
      <Outstanding overview={overview} />
      <FigureCard title="Users" to="users">
        {users === undefined ? <NotYet /> : <FigureValue value={users} unit="users" />}
        {active !== undefined && (
          <p class="soft">
            About {amountText(active.users)} active in {days} days
          </p>
        )}
        <p>
          <AppLink to="usage-limits/reached">Users at a limit</AppLink>
        </p>
      </FigureCard>
    </section>
  );
};

const NotYet = () => <p class="soft">Not computed yet. It is computed every hour.</p>;

/** Shows the money of all payments, each amount on its own day, and the credits that were bought elsewhere. */
const Revenue = ({ overview }: OverviewProps) => {
  const { days, purchase } = overview;
  const { from } = spanOf(overview);
  const sums = sumMoney(overview.money.filter(({ date }) => date >= from));
  const earlier = sumMoney(overview.money.filter(({ date }) => date < from));
  const elsewhere = UNITS.filter((unit) => sumOfUnit(purchase, unit) > 0);
  return (
    <FigureCard title={`Revenue, ${days} days`} to={figurePath("money", spanOf(overview))}>
      {sums.length === 0 && <p class="value">–</p>}
      <div class="sums">
        {sums.map(({ net, ...parts }) => (
          <p>
            <span class="value">{moneyText(net, parts.currency)}</span>{" "}
            <Delta
              now={net}
              before={earlier.find(({ currency }) => currency === parts.currency)?.net ?? 0}
              days={days}
              textOf={(amount) => moneyText(amount, parts.currency)}
            />
            {(parts.refunded !== 0 || parts.withheld !== 0) && <span class="soft line">{moneySumsText(parts)}</span>}
          </p>
        ))}
      </div>
      <p class="soft">
        At Stripe, each amount on its own day
        {elsewhere.length > 0 && (
          <>
            . Granted as a purchase elsewhere:{" "}
            <AmountList of={elsewhere.map((unit) => ({ unit, amount: sumOfUnit(purchase, unit) }))} />
          </>
        )}
      </p>
    </FigureCard>
  );
};

/** Returns the sums of some days by currency. `net` is what was paid, less what was refunded or is withheld. */
function sumMoney(money: OverviewProps["overview"]["money"]) {
  return [...Map.groupBy(money, ({ currency }) => currency)].map(([currency, ofDays]) => {
    const sum = (of: (day: (typeof money)[number]) => number) => ofDays.reduce((total, day) => total + of(day), 0);
    const [captured, refunded, withheld] = [
      sum((day) => day.captured),
      sum((day) => day.refunded),
      sum((day) => day.withheld),
    ];
    return { currency, captured, refunded, withheld, net: captured - refunded - withheld };
  });
}

interface ByUnitProps extends OverviewProps {
  readonly title: string;
  readonly figure: "granted" | "spent";
  readonly spans: TwoSpans;
  /** The part of the amounts that payments at Stripe granted. */
  readonly sold?: readonly Figure[];
}

const ByUnit = ({ title, figure, spans, sold, overview }: ByUnitProps) => {
  const units = UNITS.filter((unit) => sumOfUnit(spans.now, unit) > 0);
  const inUnit = useUnits();
  return (
    <FigureCard title={title} to={figurePath(figure, spanOf(overview))}>
      {units.length === 0 && <p class="value">0</p>}
      {units.map((unit) => {
        const now = sumOfUnit(spans.now, unit);
        return (
          <FigureValue value={now} unit={unit}>
            <Delta
              now={now}
              before={sumOfUnit(spans.before, unit)}
              days={overview.days}
              textOf={(amount) => inUnit(unit, amount)}
            />
            {sold !== undefined && sumOfUnit(sold, unit) > 0 && (
              <span class="delta">
                <ShortAmount of={sumOfUnit(sold, unit)} unit={unit} /> sold
              </span>
            )}
          </FigureValue>
        );
      })}
    </FigureCard>
  );
};

/** Shows the credits that users can still spend, held ones included: as of now, or by the hourly figures. */
const Outstanding = ({ overview: { outstanding, business } }: OverviewProps) => {
  const amounts = outstanding?.amounts ?? business?.outstanding;
  return (
    <FigureCard title="Outstanding" to="users">
      {amounts === undefined && <NotYet />}
      {amounts?.length === 0 && <p class="value">0</p>}
      {amounts?.map((each) => (
        <FigureValue value={each.amount} unit={each.unit}>
          {"held" in each && typeof each.held === "number" && each.held > 0 && (
            <span class="delta">
              <ShortAmount of={each.held} unit={each.unit} /> held
            </span>
          )}
        </FigureValue>
      ))}
      {outstanding !== null ? <p class="soft">Now</p> : business !== null && <Updated at={business.finishedAt} />}
    </FigureCard>
  );
};

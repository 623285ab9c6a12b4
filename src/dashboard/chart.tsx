import { amount, shortAmount, time } from "./format.ts";

const WIDTH = 320;
const HEIGHT = 72;

export interface Day {
  /** `2026-01-15`. */
  readonly date: string;
  readonly value: number;
}

/** A chart as text, for screen readers. */
function barsText(label: string, days: readonly Day[]): string {
  const total = days.reduce((sum, day) => sum + day.value, 0);
  const top = days.reduce((best, day) => (day.value > best.value ? day : best), days[0] ?? { date: "", value: 0 });
  return `${label} by day: ${amount(total)} total, highest on ${top.date}: ${amount(top.value)}.`;
}

interface BarsProps {
  readonly label: string;
  readonly kind: string;
  readonly days: readonly Day[];
  /** The list behind the figure. */
  readonly href?: string | undefined;
  /** The list behind one day of it. */
  readonly hrefOf?: ((date: string) => string | undefined) | undefined;
}

/** A figure by day: bars, the total, and the numbers behind a summary. */
export const Bars = (props: BarsProps) => {
  const { days } = props;
  const total = days.reduce((sum, day) => sum + day.value, 0);
  const top = Math.max(...days.map((day) => day.value), 1e-9);
  const slot = WIDTH / days.length;
  const label = props.href === undefined ? <span>{props.label}</span> : <a href={props.href}>{props.label}</a>;
  if (total === 0) {
    return (
      <figure class="chart">
        <figcaption>
          {label} <b>0</b>
        </figcaption>
        <p class="axis">
          No data from {days[0]?.date} to {days.at(-1)?.date}.
        </p>
      </figure>
    );
  }
  return (
    <figure class={`chart ${props.kind}`}>
      <figcaption>
        {label} <b>{shortAmount(total)}</b>
      </figcaption>
      <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label={barsText(props.label, days)}>
        <line x1="0" x2={WIDTH} y1={HEIGHT - 1} y2={HEIGHT - 1} />
        {days.map((day, index) => {
          const height = day.value === 0 ? 0 : Math.max(2, (day.value / top) * (HEIGHT - 6));
          return (
            <rect x={index * slot + 1} y={HEIGHT - 1 - height} width={Math.max(1, slot - 2)} height={height} rx="1">
              <title>{`${day.date}: ${amount(day.value)}`}</title>
            </rect>
          );
        })}
      </svg>
      <p class="axis">
        <span>{days[0]?.date}</span>
        <span>{days.at(-1)?.date}</span>
      </p>
      <details>
        <summary>Numbers</summary>
        <ul>
          {days
            .filter((day) => day.value !== 0)
            .map((day) => (
              <li>
                {props.hrefOf === undefined ? day.date : <a href={props.hrefOf(day.date)}>{day.date}</a>}:{" "}
                {amount(day.value)}
              </li>
            ))}
        </ul>
      </details>
    </figure>
  );
};

export interface Step {
  readonly at: string;
  readonly value: number;
}

/** An amount over time as steps, oldest first. */
export const StepChart = (props: { label: string; steps: readonly Step[] }) => {
  const { steps } = props;
  const [first, last] = [steps[0], steps.at(-1)];
  if (first === undefined || last === undefined || steps.length < 2) return null;
  const [from, to] = [Date.parse(first.at), Math.max(Date.parse(last.at), Date.parse(first.at) + 1)];
  const top = Math.max(...steps.map((step) => step.value), 1e-9);
  const x = (at: string) => (((Date.parse(at) - from) / (to - from)) * WIDTH).toFixed(1);
  const y = (value: number) => (HEIGHT - 2 - (value / top) * (HEIGHT - 8)).toFixed(1);
  const path = steps.map((step, index) => (index === 0 ? `M0 ${y(step.value)}` : `H${x(step.at)}V${y(step.value)}`));
  const text = `${props.label}: from ${amount(first.value)} on ${first.at.slice(0, 10)} to ${amount(last.value)} on ${last.at.slice(0, 10)}, at most ${amount(top)}.`;
  return (
    <figure class="chart balance">
      <figcaption>
        <span>{props.label}</span> <b>{amount(last.value)}</b>
      </figcaption>
      <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" role="img" aria-label={text}>
        <path class="area" d={`${path.join("")}V${HEIGHT}H0Z`} />
        <path class="line" d={path.join("")} />
      </svg>
      <p class="axis">
        <span>{time(first.at)}</span>
        <span>
          0 to {amount(top)}; {steps.length} newest entries, UTC
        </span>
        <span>{time(last.at)}</span>
      </p>
    </figure>
  );
};

/** How much of a balance remains, or how much of a limit is used. */
export const Meter = (props: { label: string; remaining: number; initial: number }) => {
  // After an adjustment, more can remain than the initial amount.
  const share = Math.min(1, props.remaining / Math.max(props.initial, props.remaining, 1e-9));
  return (
    <svg class="meter" viewBox="0 0 100 8" preserveAspectRatio="none" role="img" aria-label={props.label}>
      <rect class="all" width="100" height="8" />
      {share > 0 && <rect class="left" width={(share * 100).toFixed(2)} height="8" />}
    </svg>
  );
};

import { AppLink } from "./app-link.tsx";
import { amountText, shortAmount, timeText } from "./format.tsx";

interface Point {
  /** `2026-01-15`. */
  readonly date: string;
  readonly value: number;
}

export interface Series {
  readonly name: string;
  readonly days: readonly Point[];
  /** Returns the path of the page that lists the entries of a day. */
  readonly pathOf?: ((date: string) => string | undefined) | undefined;
}

interface DaysProps {
  readonly label: string;
  /** The path of the page that lists the entries of the whole figure. */
  readonly to?: string | undefined;
  /** The sum, with its unit. */
  readonly total: string;
  /** All series have the same days. A series named `Before` is the previous period, drawn as a dashed line. */
  readonly series: readonly Series[];
}

/** Returns a chart as text, for screen readers. */
function daysText({ label, total, series: [first] }: DaysProps): string {
  const top = first?.days.reduce((best, day) => (day.value > best.value ? day : best));
  return `${label} by day: ${total}. The most: ${amountText(top?.value ?? 0)} on ${top?.date ?? "no day"}.`;
}

/** Shows a figure by day. The script draws the chart from the table; without the script, only the table appears. */
export const DayChart = (props: DaysProps) => {
  const { label, to, total, series } = props;
  const [first] = series;
  if (first === undefined || series.every(({ days }) => days.every(({ value }) => value === 0))) {
    return (
      <figure class="chart">
        <Caption label={label} to={to} total={total} />
        <p class="soft">
          Nothing from {first?.days[0]?.date} to {first?.days.at(-1)?.date}.
        </p>
      </figure>
    );
  }
  return (
    <figure class="chart" data-chart="days">
      <Caption label={label} to={to} total={total} />
      <div class="plot" role="img" aria-label={daysText(props)} />
      {series.length > 1 && (
        <p class="legend" aria-hidden="true">
          {series.map(({ name }, index) => (
            <span class={`s${index}`}>{name}</span>
          ))}
        </p>
      )}
      <ChartNumbers
        summary="Numbers"
        heads={["Day", ...series.map(({ name }) => name)]}
        rows={first.days.map(({ date }, index) => ({
          at: date,
          text: date,
          values: series.map(({ days, pathOf }) => ({ value: days[index]?.value ?? 0, to: pathOf?.(date) })),
        }))}
      />
    </figure>
  );
};

const Caption = ({ label, to, total }: { label: string; to?: string | undefined; total: string }) => (
  <figcaption>
    {to === undefined ? <span>{label}</span> : <AppLink to={to}>{label}</AppLink>} <b>{total}</b>
  </figcaption>
);

interface NumbersProps {
  readonly summary: string;
  readonly heads: readonly string[];
  readonly rows: readonly {
    readonly at: string;
    readonly text: string;
    readonly values: readonly { readonly value: number; readonly to?: string | undefined }[];
  }[];
}

/** Shows the numbers of a chart as a table, from which the script draws it. A value of 0 has no link. */
const ChartNumbers = ({ summary, heads, rows }: NumbersProps) => (
  <details>
    <summary>{summary}</summary>
    <table>
      <thead>
        <tr>
          {heads.map((head, index) => (
            <th scope="col" class={index === 0 ? undefined : "end"}>
              {head}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {rows.map(({ at, text, values }) => (
          <tr>
            <td data-at={at}>{text}</td>
            {values.map(({ value, to }) => (
              <td class="end" data-value={value}>
                {to === undefined || value === 0 ? amountText(value) : <AppLink to={to}>{amountText(value)}</AppLink>}
              </td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  </details>
);

export interface ChartStep {
  readonly at: string;
  readonly value: number;
}

/** Shows an amount over time as steps, oldest first. */
export const StepChart = ({ label, steps }: { label: string; steps: readonly ChartStep[] }) => {
  const [first, last] = [steps[0], steps.at(-1)];
  if (first === undefined || last === undefined || steps.length < 2) return null;
  const top = Math.max(...steps.map((step) => step.value));
  const text = `${label}: from ${amountText(first.value)} on ${first.at.slice(0, 10)} to ${amountText(last.value)} on ${last.at.slice(0, 10)}, at most ${amountText(top)}.`;
  return (
    <figure class="chart" data-chart="steps">
      <Caption label={label} total={shortAmount(last.value)} />
      <div class="plot" role="img" aria-label={text} />
      <ChartNumbers
        summary={`The ${steps.length} newest entries`}
        heads={["When (UTC)", "Remaining"]}
        rows={steps.map(({ at, value }) => ({ at, text: timeText(at), values: [{ value }] }))}
      />
    </figure>
  );
};

/** Shows how much of a balance remains, or how much of a limit is used. */
export const Meter = (props: { label: string; remaining: number; initial: number }) => (
  // After an adjustment, more can remain than the initial amount.
  <progress aria-label={props.label} max={Math.max(props.initial, props.remaining, 1e-9)} value={props.remaining} />
);

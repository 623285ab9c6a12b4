import { UNITS } from "../books/amounts/amount.ts";
import type { Business } from "./figures/read-business.ts";
import { type FigureName, figurePath } from "./figures.tsx";
import { amountText, Updated } from "./format.tsx";
import { pathIn } from "./layout.tsx";
import { type FiguresProps, spanOf } from "./overview-figures.tsx";
import { sumOfUnit } from "./read-overview.ts";

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

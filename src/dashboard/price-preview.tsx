import { doubleOf } from "../books/amounts/amount.ts";
import { type ChargedBefore, type ListPreview, PREVIEW_DAYS, PREVIEW_EVENTS_MAX } from "../books/usage/preview-list.ts";
import { numberText } from "../lib/json.ts";
import { Card } from "./components.tsx";
import { amountText } from "./format.tsx";
import { numberHead, Table } from "./table.tsx";
import { BareAmount, UnitAmount, UnitLabel } from "./unit-amount.tsx";

/** Returns whether amounts are equal. Those with more digits than a double are objects. */
const isUnchanged = ({ before, after }: ChargedBefore): boolean => numberText(before) === numberText(after);

/** Returns `12 % more`. */
function changeText(change: ChargedBefore): string {
  const { permille, before, after } = change;
  if (permille === null) return "not charged before";
  if (isUnchanged(change)) return "the same";
  const percent = permille === 0 ? "under 0.1" : amountText(Math.abs(permille) / 10);
  return `${percent} % ${doubleOf(after) > doubleOf(before) ? "more" : "less"}`;
}

const Unpriced = ({ of }: { of: ListPreview["unpriced"] }) =>
  of.length === 0 ? null : (
    <div class="warn-box">
      <p>
        Events that have no price in this list, and will be rejected:{" "}
        {amountText(of.reduce((sum, { events }) => sum + events, 0))}.
      </p>
      <ul>
        {of.slice(0, 10).map(({ event, model, meters, events }) => (
          <li>
            <code>{event}</code>
            {model === null ? "" : `, model ${model}`}
            {meters.length === 0 ? "" : `, ${meters.join(", ")}`}: {amountText(events)}
          </li>
        ))}
      </ul>
    </div>
  );

/** Shows what a list would have charged the last week's events, beside what they were charged. */
export const Preview = ({ preview: { events, isTruncated, units, models, unpriced } }: { preview: ListPreview }) => (
  <Card title={`The last ${PREVIEW_DAYS} days by this list`}>
    {units.map((change) => (
      <p>
        This list would have charged <strong>{changeText(change)}</strong>:{" "}
        <UnitAmount of={change.after} unit={change.unit} />
        {!isUnchanged(change) && (
          <>
            {" "}
            instead of <BareAmount of={change.before} unit={change.unit} />
          </>
        )}
        .
      </p>
    ))}
    {events === 0 && <p class="empty">No event of these days has meters and a price in this list.</p>}
    <Unpriced of={unpriced} />
    <Table
      label="By model"
      head={["Model", "Unit", numberHead("Events"), numberHead("Charged"), numberHead("By this list"), "Change"]}
      empty=""
      rows={models.map((change) => [
        change.model ?? "none",
        <UnitLabel unit={change.unit} />,
        amountText(change.events),
        amountText(change.before),
        amountText(change.after),
        changeText(change),
      ])}
    />
    <p class="soft">
      {amountText(events)} events with meters, by UTC days.{" "}
      {isTruncated &&
        `There are more: only ${amountText(PREVIEW_EVENTS_MAX)} of the newest days' events are looked at. `}
      Events of the last minutes may be missing.
    </p>
  </Card>
);

import type { PurserError } from "../errors.ts";
import { SubmitButton } from "./components.tsx";
import { Field } from "./fields.tsx";
import { FormCard } from "./form-card.tsx";
import type { ListDraft, PriceDraft } from "./price-draft.ts";
import { numberHead, Table } from "./table.tsx";
import { UnitChoice } from "./unit-choice.tsx";

interface PriceFormProps {
  readonly draft: ListDraft;
  readonly rejections: readonly PurserError[];
  /** How many empty rows each list has at its end. */
  readonly blank: number;
}

const BLANK_ROW = { place: "", event: "", model: "", when: "", unit: "cents", perEvent: "", per: "" };

/** Shows a price list as a table of fields, each rule's errors beside it. */
export const PriceForm = ({ draft, rejections, blank }: PriceFormProps) => (
  <FormCard action="prices/review" fields={{ ifVersion: draft.ifVersion, blank: `${blank + 10}` }}>
    <div class="field wide table-form">
      <p class="soft">
        Of each unit, the first rule that matches an event gives its price. Change the numbers to reorder the rules.
        Empty a row to remove it. An empty event or model means all. A meter's price is an amount, or an amount for a
        number of units.
      </p>
      <h2>Rules: what users pay</h2>
      <Rows list="rules" rows={draft.rules} blank={blank} rejections={rejections} />
      <h2>Costs: what you pay, in cents of your currency</h2>
      <Rows list="costs" rows={draft.costs} blank={blank} rejections={rejections} />
    </div>
    <Field
      label="In force from (UTC)"
      name="effectiveAt"
      type="datetime-local"
      step="1"
      value={draft.effectiveAt}
      hint="empty: now"
      rejection={rejectionAt(rejections, "effectiveAt")}
    />
    <Field label="Note (optional)" name="note" value={draft.note} rejection={rejectionAt(rejections, "note")} />
    <SubmitButton text="Review the change" />
    <SubmitButton text="More rows" kind="quiet" name="more" value="yes" />
  </FormCard>
);

/** Returns the rejection of an argument, or of a part of it. */
const rejectionAt = (rejections: readonly PurserError[], name: string): PurserError | undefined =>
  rejections.find(({ param = "" }) => param === name || param.startsWith(`${name}.`) || param.startsWith(`${name}[`));

interface RowsProps {
  readonly list: "rules" | "costs";
  readonly rows: readonly PriceDraft[];
  readonly blank: number;
  readonly rejections: readonly PurserError[];
}

const Rows = ({ list, rows, blank, rejections }: RowsProps) => {
  const all = [...rows, ...Array.from({ length: blank }, () => BLANK_ROW)];
  return (
    <Table
      label={list === "rules" ? "Rules" : "Costs"}
      head={[
        ...[numberHead("No."), "Event", "Model", "When", ...(list === "rules" ? ["Unit"] : [])],
        ...["An event", "Meters"],
      ]}
      empty=""
      rows={all.map((row, index) => {
        const at = `${list}[${index}]`;
        const name = (field: keyof PriceDraft) => `${list}.${index}.${field}`;
        const field = (of: keyof PriceDraft, label: string, placeholder = "") => (
          <Field
            label={`${label} of no. ${index + 1}`}
            name={name(of)}
            value={row[of]}
            param={`${at}.${of}`}
            required={false}
            placeholder={placeholder}
            rejection={rejectionAt(rejections, `${at}.${of}`)}
          />
        );
        return [
          field("place", "Number"),
          field("event", "Event", "all"),
          field("model", "Model", "all"),
          field("when", "Condition", "input above 200000"),
          ...(list === "rules"
            ? [
                <UnitChoice
                  label={`Unit of no. ${index + 1}`}
                  name={name("unit")}
                  value={row.unit}
                  param={`${at}.unit`}
                  rejection={rejectionAt(rejections, `${at}.unit`)}
                />,
              ]
            : []),
          field("perEvent", "Price of an event"),
          <>
            {field("per", "Meters", "input 125 for 1000000")}
            <RowError rejection={rejections.find(({ param }) => param === at)} />
          </>,
        ];
      })}
    />
  );
};

/** Shows a rejection of a whole rule, such as one without a price. */
const RowError = ({ rejection }: { rejection: PurserError | undefined }) =>
  rejection === undefined ? null : (
    <span class="field-error" role="alert">
      {rejection.message.replace(/^\S+ /, "This rule ").replaceAll("`", "")}
    </span>
  );

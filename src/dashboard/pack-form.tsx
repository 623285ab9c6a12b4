import type { Context } from "hono";
import type { Child } from "hono/jsx";
import { UNITS } from "../books/amounts/amount.ts";
import type { RulesVerdict } from "../catalog/insert-pack.ts";
import type { PurserError } from "../errors.ts";
import { Choice, Field, Hidden } from "./fields.tsx";
import type { DashboardEnv } from "./form.ts";
import { FormToken, pathIn } from "./layout.tsx";
import { blankItem, type ItemDraft, type PackDraft, type RuleDraft } from "./pack-draft.ts";

export interface RuleTest {
  readonly event: string;
  readonly model: string;
  readonly verdicts: readonly (RulesVerdict & { readonly name: string })[];
}

interface PackFormProps {
  readonly c: Context<DashboardEnv>;
  /** Null for a new pack. */
  readonly packId: string | null;
  readonly draft: PackDraft;
  /** The version that the form changes. */
  readonly version?: number;
  readonly rejection?: PurserError | undefined;
  readonly ruleTest: RuleTest;
}

const units = UNITS.map((unit) => [unit, unit] as const);
/** The mark in templates that the script replaces by the row's number. */
const ITEM_MARK = "__item__";
const RULE_MARK = "__rule__";

export const PackForm = ({ c, packId, draft, version, rejection, ruleTest }: PackFormProps) => {
  return (
    <form method="post" action={pathIn(c, packId === null ? "packs" : `packs/${packId}`)}>
      <FormToken c={c} />
      {version !== undefined && <Hidden fields={{ version: String(version) }} />}
      <section class="card">
        <div class="row">
          <Field label="Name" name="packName" value={draft.packName} required rejection={rejection} />
          <Field
            label="Expires after (days)"
            name="defaultExpiryDays"
            value={draft.defaultExpiryDays}
            hint="empty: never"
            rejection={rejection}
          />
        </div>
        <Kind kind={draft.kind} />
        <p class="soft">
          A balance pays for events that match one of its rules, or for all events if it has none. <code>*</code>{" "}
          matches any characters.
        </p>
        <div class="items-only" data-scope>
          <div data-list="item">
            {(draft.items.length === 0 ? [blankItem] : draft.items).map((item, index) => (
              <Item item={item} index={`${index}`} rejection={rejection} param={`items[${index}]`} />
            ))}
            {/* Without the script, the form has one more row, which is not an item while it is empty. */}
            {draft.items.length > 0 && (
              <noscript>
                <Item
                  item={blankItem}
                  index={`${draft.items.length}`}
                  rejection={rejection}
                  param={`items[${draft.items.length}]`}
                  isInNoscript
                />
              </noscript>
            )}
            <template data-mark={ITEM_MARK}>
              <Item item={blankItem} index={ITEM_MARK} rejection={undefined} param="" />
            </template>
          </div>
          <button type="button" class="quiet" data-add="item">
            Add an item
          </button>
        </div>
        <fieldset class="legacy-only" data-scope>
          <legend>Unit and rules</legend>
          <div class="row">
            <Choice label="Unit" name="unit" value={draft.unit} options={units} />
            <Field
              label="Priority"
              name="priority"
              value={draft.priority}
              placeholder="100"
              hint="lower pays first"
              rejection={rejection}
            />
          </div>
          <RuleFields prefix="" rules={draft.rules} rejection={rejection} param="matches" />
        </fieldset>
        {packId !== null && <p class="soft">Existing balances do not change. Changes apply to new grants.</p>}
        {/* This button stands before the tester, because Enter presses the first button of a form. */}
        <div class="row">
          <button type="submit">{packId === null ? "Create pack" : "Save pack"}</button>
          <a class="button quiet" href={pathIn(c, "packs")}>
            Cancel
          </a>
        </div>
      </section>
      <Tester c={c} packId={packId} ruleTest={ruleTest} />
    </form>
  );
};

const Kind = ({ kind }: { kind: PackDraft["kind"] }) => (
  <div class="kinds">
    <label>
      <input type="radio" name="kind" value="items" checked={kind === "items"} /> Fixed amounts: each grant issues every
      item's amount
    </label>
    <label>
      <input type="radio" name="kind" value="legacy" checked={kind === "legacy"} /> Variable amount: each grant gives a
      quantity
    </label>
  </div>
);

interface ItemProps {
  readonly item: ItemDraft;
  readonly index: string;
  readonly rejection: PurserError | undefined;
  readonly param: string;
  /** One <noscript> must not contain another: where scripts run, it would end there. */
  readonly isInNoscript?: boolean;
}

const Item = ({ item, index, rejection, param, isInNoscript = false }: ItemProps) => {
  const prefix = `items.${index}.`;
  return (
    <fieldset data-index={index} data-scope>
      <legend>{index === ITEM_MARK ? "New item" : `Item ${Number(index) + 1}`}</legend>
      <input type="hidden" name={`${prefix}packItemId`} value={item.packItemId} />
      <div class="row">
        <Field
          label="Amount"
          name={`${prefix}amount`}
          value={item.amount}
          rejection={rejection}
          param={`${param}.amount`}
        />
        <Choice label="Unit" name={`${prefix}unit`} value={item.unit} options={units} />
        <Field
          label="Priority"
          name={`${prefix}priority`}
          value={item.priority}
          placeholder="100"
          hint="lower pays first"
          rejection={rejection}
          param={`${param}.priority`}
        />
      </div>
      <RuleFields prefix={prefix} rules={item.rules} rejection={rejection} param={`${param}.matches`}>
        <button type="button" class="quiet" data-remove>
          Remove this item
        </button>
        {/* Without the script its button does nothing. */}
        {!isInNoscript && (
          <noscript>
            <label>
              <input type="checkbox" name={`${prefix}remove`} value="yes" /> Remove this item when the pack is saved
            </label>
          </noscript>
        )}
      </RuleFields>
    </fieldset>
  );
};

interface RulesProps {
  readonly prefix: string;
  readonly rules: readonly RuleDraft[];
  readonly rejection: PurserError | undefined;
  /** The argument of the API for these rules. */
  readonly param: string;
  readonly children?: Child;
}

const blankRule: RuleDraft = { event: "", model: "" };

const RuleFields = (props: RulesProps) => (
  <div data-scope>
    <div data-list="rule">
      {[...props.rules, blankRule].map((rule, index) => (
        <Rule
          prefix={props.prefix}
          rule={rule}
          index={`${index}`}
          rejection={props.rejection}
          param={`${props.param}[${index}]`}
        />
      ))}
      <template data-mark={RULE_MARK}>
        <Rule prefix={props.prefix} rule={blankRule} index={RULE_MARK} rejection={undefined} param="" />
      </template>
    </div>
    <div class="row">
      <button type="button" class="quiet" data-add="rule">
        Add a rule
      </button>
      {props.children}
    </div>
  </div>
);

interface RuleProps extends Pick<RulesProps, "prefix" | "rejection" | "param"> {
  readonly rule: RuleDraft;
  readonly index: string;
}

const Rule = ({ prefix, rule, index, rejection, param }: RuleProps) => (
  <div class="row" data-index={index}>
    <Field
      label="Event"
      name={`${prefix}rules.${index}.event`}
      value={rule.event}
      placeholder="chat.*"
      rejection={rejection}
      param={`${param}.event`}
    />
    <Field
      label="Model"
      name={`${prefix}rules.${index}.model`}
      value={rule.model}
      placeholder="any"
      rejection={rejection}
      param={`${param}.model`}
    />
    <button type="button" class="quiet" data-remove aria-label="Remove this rule">
      Remove
    </button>
  </div>
);

const Tester = ({ c, packId, ruleTest }: { c: Context<DashboardEnv>; packId: string | null; ruleTest: RuleTest }) => {
  const path = pathIn(c, packId === null ? "packs/new/try" : `packs/${packId}/try`);
  return (
    <section class="card" data-tester={path}>
      <h2>Test the rules</h2>
      <div class="row">
        <Field label="Event" name="try.event" value={ruleTest.event} placeholder="chat.completed" />
        <Field label="Model (optional)" name="try.model" value={ruleTest.model} />
        <button type="submit" class="quiet" formaction={path} formnovalidate>
          Test
        </button>
      </div>
      <div data-verdicts aria-live="polite">
        {ruleTest.verdicts.map((verdict) => (
          <p class={`verdict ${verdict.isCovered ? "yes" : "no"}`} data-verdict>
            {verdict.isCovered ? "✓" : "✗"} {verdict.name}: {verdict.why}
          </p>
        ))}
      </div>
    </section>
  );
};

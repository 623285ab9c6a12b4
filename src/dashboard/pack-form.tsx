import type { Child } from "hono/jsx";
import { UNITS } from "../books/amounts/amount.ts";
import type { RulesVerdict } from "../catalog/insert-pack.ts";
import type { PurserError } from "../errors.ts";
import { LinkButton, pathIn } from "./app-link.tsx";
import { Choice, Field, FormContext, Hidden } from "./fields.tsx";
import { useRequest } from "./form.ts";
import { AppForm } from "./form-card.tsx";
import { blankItem, type ItemDraft, type PackDraft, type RuleDraft } from "./pack-draft.ts";

export interface RuleTest {
  readonly event: string;
  readonly model: string;
  readonly verdicts: readonly (RulesVerdict & { readonly name: string })[];
}

interface PackFormProps {
  /** Null for a new pack. */
  readonly packId: string | null;
  readonly draft: PackDraft;
  /** The version that the form changes. */
  readonly version?: number;
  readonly rejection?: PurserError | undefined;
  readonly ruleTest: RuleTest;
}

/** The mark in templates that the script replaces by the row's number. */
const ITEM_MARK = "__item__";
const RULE_MARK = "__rule__";

export const PackForm = ({ packId, draft, version, rejection, ruleTest }: PackFormProps) => (
  <FormContext.Provider value={{ form: {}, rejection }}>
    <AppForm action={packId === null ? "packs" : `packs/${packId}`}>
      {version !== undefined && <Hidden fields={{ version: String(version) }} />}
      <section class="card">
        <div class="row">
          <Field label="Name" name="packName" value={draft.packName} required />
          <Field
            label="Expires after (days)"
            name="defaultExpiryDays"
            value={draft.defaultExpiryDays}
            hint="empty: never"
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
              <Item item={item} index={`${index}`} />
            ))}
            {/* Without the script, the form has one more row, which is not an item while it is empty. */}
            {draft.items.length > 0 && (
              <noscript>
                <Item item={blankItem} index={`${draft.items.length}`} isInNoscript />
              </noscript>
            )}
            <template data-mark={ITEM_MARK}>
              <Item item={blankItem} index={ITEM_MARK} />
            </template>
          </div>
          <button type="button" class="quiet" data-add="item">
            Add an item
          </button>
        </div>
        <fieldset class="open-amount-only" data-scope>
          <legend>Unit and rules</legend>
          <div class="row">
            <Choice label="Unit" name="unit" value={draft.unit} options={UNITS} />
            <Priority name="priority" value={draft.priority} />
          </div>
          <RuleFields prefix="" rules={draft.rules} param="matches" />
        </fieldset>
        {packId !== null && <p class="soft">Existing balances do not change. Changes apply to new grants.</p>}
        {/* This button stands before the tester, because Enter presses the first button of a form. */}
        <div class="row">
          <button type="submit">{packId === null ? "Create pack" : "Save pack"}</button>
          <LinkButton text="Cancel" to="packs" />
        </div>
      </section>
      <Tester packId={packId} ruleTest={ruleTest} />
    </AppForm>
  </FormContext.Provider>
);

const Kind = ({ kind }: { kind: PackDraft["kind"] }) => (
  <div class="kinds">
    <label>
      <input type="radio" name="kind" value="items" checked={kind === "items"} /> Fixed amounts: each grant issues every
      item's amount
    </label>
    <label>
      <input type="radio" name="kind" value="open-amount" checked={kind === "open-amount"} /> Variable amount: each
      grant gives a quantity
    </label>
  </div>
);

const Priority = (props: { name: string; value: string; param?: string }) => (
  <Field label="Priority" placeholder="100" hint="lower pays first" {...props} />
);

interface ItemProps {
  readonly item: ItemDraft;
  readonly index: string;
  /** One <noscript> must not contain another: where scripts run, it would end there. */
  readonly isInNoscript?: boolean;
}

const Item = ({ item, index, isInNoscript = false }: ItemProps) => {
  const [prefix, param] = [`items.${index}.`, `items[${index}]`];
  return (
    <fieldset data-index={index} data-scope>
      <legend>{index === ITEM_MARK ? "New item" : `Item ${Number(index) + 1}`}</legend>
      <Hidden fields={{ [`${prefix}packItemId`]: item.packItemId }} />
      <div class="row">
        <Field label="Amount" name={`${prefix}amount`} value={item.amount} param={`${param}.amount`} />
        <Choice label="Unit" name={`${prefix}unit`} value={item.unit} options={UNITS} />
        <Priority name={`${prefix}priority`} value={item.priority} param={`${param}.priority`} />
      </div>
      <RuleFields prefix={prefix} rules={item.rules} param={`${param}.matches`} isInNoscript={isInNoscript}>
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

interface RulesProps extends Pick<ItemProps, "isInNoscript"> {
  readonly prefix: string;
  readonly rules: readonly RuleDraft[];
  /** The argument of the API for these rules. */
  readonly param: string;
  readonly children?: Child;
}

const blankRule: RuleDraft = { event: "", model: "" };

/** Shows the rules. Without the script, the form has one more row, which is not a rule while it is empty. */
const RuleFields = ({ prefix, rules, param, isInNoscript = false, children }: RulesProps) => {
  const row = (rule: RuleDraft, index: string) => <Rule prefix={prefix} rule={rule} index={index} param={param} />;
  const more = row(blankRule, `${rules.length}`);
  return (
    <div data-scope>
      <div data-list="rule">
        {rules.map((rule, index) => row(rule, `${index}`))}
        {isInNoscript ? more : <noscript>{more}</noscript>}
        <template data-mark={RULE_MARK}>{row(blankRule, RULE_MARK)}</template>
      </div>
      <div class="row">
        <button type="button" class="quiet" data-add="rule">
          Add a rule
        </button>
        {children}
      </div>
    </div>
  );
};

interface RuleProps extends Pick<RulesProps, "prefix" | "param"> {
  readonly rule: RuleDraft;
  readonly index: string;
}

const Rule = ({ prefix, rule, index, param }: RuleProps) => (
  <div class="row" data-index={index}>
    {(["event", "model"] as const).map((name) => (
      <Field
        label={name === "event" ? "Event" : "Model"}
        name={`${prefix}rules.${index}.${name}`}
        value={rule[name]}
        placeholder={name === "event" ? "chat.*" : "any"}
        param={`${param}[${index}].${name}`}
      />
    ))}
    <button type="button" class="quiet" data-remove aria-label="Remove this rule">
      Remove
    </button>
  </div>
);

const Tester = ({ packId, ruleTest }: { packId: string | null; ruleTest: RuleTest }) => {
  const path = pathIn(useRequest(), packId === null ? "packs/new/try" : `packs/${packId}/try`);
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

import { useContext } from "hono/jsx";
import * as z from "zod";
import { usageFields } from "../api/usage/usage-shapes.ts";
import { meters } from "../books/amounts/amount-fields.ts";
import { deletePriceList } from "../books/prices/change-prices.ts";
import type { CostRule, PriceRule } from "../books/prices/price.ts";
import { listPriceLists, type PriceListPage, readPriceList } from "../books/prices/price-lists.ts";
import { previewPrice, type UsagePrice } from "../books/usage/preview-price.ts";
import { invalid, PurserError } from "../errors.ts";
import { lazy } from "../http/lazy.ts";
import { exactNumber } from "../lib/json.ts";
import { LinkButton } from "./app-link.tsx";
import { fieldColumn, linkColumn, numberColumn, tagColumn, textColumn } from "./columns.tsx";
import { askRoutes, confirmPage } from "./confirm.tsx";
import { Field } from "./fields.tsx";
import { catchRejection, createDashboardRoutes, type Form, type PageContext, parseForm, textField } from "./form.ts";
import { FormCard } from "./form-card.tsx";
import { timeText } from "./format.tsx";
import { page } from "./layout.tsx";
import { conditionText, metersText } from "./price-draft.ts";
import { listPage, listRoutes, type Resource } from "./resource.tsx";
import { numberHead, Table } from "./table.tsx";
import { QuantityList, UnitLabel, UnitsContext, unitText } from "./unit-amount.tsx";

const priceQuestion = lazy(() => {
  const { event, model } = usageFields();
  return z.strictObject({ event, model, meters });
});

/** Reads meters as a person types them: `input 1200, output 300`. */
function metersOfText(text: string): object {
  const pairs = text.split(/[,;\n]+/).filter((part) => part.trim() !== "");
  return Object.fromEntries(
    pairs.map((pair) => {
      const [, name, number] = /^\s*(\w+)[\s:=]+([\d.]+)\s*$/.exec(pair) ?? [];
      if (name === undefined || number === undefined)
        throw invalid("meters", "must be names and numbers, such as `input 1200, output 300`");
      return [name, exactNumber(number)];
    }),
  );
}

/** Returns the price that the form asks for; null if it asks nothing. */
async function priceAsked(c: PageContext, form: Form): Promise<UsagePrice | null> {
  if (form.event === undefined) return null;
  const question = { event: form.event, model: textField(form, "model"), meters: metersOfText(form.meters ?? "") };
  return previewPrice(c.var.ctx, parseForm(priceQuestion.unwrap(), question));
}

const NOTICES: Readonly<Record<string, string>> = {
  made: "The version is made.",
  deleted: "The scheduled version is deleted.",
};

type ListedVersion = PriceListPage["versions"][number] & { readonly state: "in force" | "scheduled" | "replaced" };
const STATE_TAGS = { "in force": "active", scheduled: "open", replaced: "plain" } as const;

const versionsList: Resource<ListedVersion> = {
  path: "prices",
  title: "Prices",
  section: "prices",
  label: "Versions",
  about:
    "A price list turns the meters of an event into quantities. A version never changes: edit the list to make a new one.",
  columns: [
    linkColumn("version", "Version", ({ version }) => `prices/${version}`),
    tagColumn("state", "State", ({ state }) => STATE_TAGS[state]),
    fieldColumn("effectiveAt", "In force from (UTC)", ({ effectiveAt }) => timeText(effectiveAt)),
    numberColumn("rules", "Rules"),
    textColumn("note", "Note"),
  ],
  read: (c) => async (page) => {
    const { root, appId, mode, ctx } = c.var;
    const { inForce, versions, nextCursor } = await listPriceLists(root, appId, { mode, ...page });
    const stateOf = ({ version, effectiveAt }: PriceListPage["versions"][number]) =>
      version === inForce ? "in force" : Date.parse(effectiveAt) > ctx.now() ? "scheduled" : "replaced";
    return { rows: versions.map((listed) => ({ ...listed, state: stateOf(listed) })), nextCursor };
  },
  empty: "No price list yet: events send quantities. Edit the list to make its first version.",
  notices: NOTICES,
  actions: () => (
    <>
      <LinkButton text="Edit the list" kind="main" to="prices/edit" />
      <LinkButton text="Compare versions" to="prices/compare" />
      <LinkButton text="Costs and debits" to="prices/margin" />
    </>
  ),
};

/** Shows the versions, and the price of the usage that the form asks about. */
async function priceListsPage(c: PageContext) {
  const form = c.req.query();
  const { result: price, rejection } = await catchRejection(() => priceAsked(c, form));
  const below = () => (
    <FormCard
      method="get"
      action="prices"
      title="What would this cost"
      form={form}
      rejection={rejection}
      button="Show price"
      beside={price && <PriceAnswer price={price} />}
    >
      <Field label="Event" name="event" required />
      <Field label="Model" name="model" />
      <Field label="Meters" name="meters" placeholder="input 1200, output 300" />
    </FormCard>
  );
  return listPage(c, { ...versionsList, below }, rejection);
}

const PriceAnswer = ({ price: { quantities, priceVersion, rules } }: { price: UsagePrice }) => {
  const units = useContext(UnitsContext);
  return (
    <p role="status" class="wide">
      <QuantityList of={quantities} />, by version {priceVersion},{" "}
      {rules.map(({ unit, rule }) => `rule ${rule + 1} (${unitText(units, unit)})`).join(" and ")}.
    </p>
  );
};

/** The cells of a rule that price lists and costs have in common. */
const cellsOfRule = ({ event, model, when, perEvent, per }: CostRule, index: number) => [
  index + 1,
  event ?? "all",
  model ?? "all",
  conditionText(when),
  perEvent ?? "",
  per === undefined ? "any meters" : metersText(per),
];
const RULE_HEADS = [numberHead("No."), "Event", "Model", "When", numberHead("An event"), "Meters"];

const VersionActions = ({ version, isScheduled }: { version: number; isScheduled: boolean }) => (
  <>
    <LinkButton text="Edit as a new version" kind="main" to={`prices/edit?version=${version}`} />
    <LinkButton text="Compare" to={`prices/compare?to=${version}`} />
    {isScheduled && <LinkButton text="Delete" kind="danger" to={`prices/${version}/delete`} />}
  </>
);

/** Returns the version in the path. */
function readVersion(c: PageContext): number {
  const version = Number(c.req.param("version"));
  if (version > Number.MAX_SAFE_INTEGER) throw new PurserError("not_found", "The price list has no such version.");
  return version;
}

function deleteVersionPage(c: PageContext, rejection?: PurserError) {
  const version = readVersion(c);
  return confirmPage(
    c,
    {
      title: `Delete version ${version}`,
      button: "Delete version",
      cancel: `prices/${version}`,
      isDangerous: true,
      rejection,
    },
    `Delete the scheduled version ${version}? It never takes force, and its number is not used again.`,
  );
}

async function priceListPage(c: PageContext) {
  const { root, appId, mode } = c.var;
  const version = readVersion(c);
  const list = await readPriceList(root, appId, mode, version);
  const rules: readonly PriceRule[] = list.rules;
  const isScheduled = Date.parse(list.effectiveAt) > c.var.ctx.now();
  return page(
    c,
    {
      ...{ title: `Prices, version ${version}`, section: "prices", notice: NOTICES[c.req.query("notice") ?? ""] },
      actions: <VersionActions version={version} isScheduled={isScheduled} />,
    },
    <section class="card">
      <p class="soft">
        In force from {timeText(list.effectiveAt)} UTC. {list.note} Of each unit the first rule that matches gives the
        quantity.
      </p>
      <Table
        label="Rules"
        csv="prices"
        head={[...RULE_HEADS, "Unit"]}
        empty="No rules: no event has a price."
        rows={rules.map((rule, index) => [...cellsOfRule(rule, index), <UnitLabel unit={rule.unit} />])}
      />
      <h2>Your own costs, in cents</h2>
      <Table label="Costs" csv="costs" head={RULE_HEADS} empty="No costs." rows={list.costs.map(cellsOfRule)} />
    </section>,
  );
}

export const pricesRoutes = createDashboardRoutes()
  .get("/prices", priceListsPage)
  .route("/", listRoutes(versionsList))
  .get("/prices/:version{[0-9]+}", (c) => priceListPage(c))
  .route(
    "/",
    askRoutes(
      "/prices/:version{[0-9]+}/delete",
      (c, _form, rejection) => deleteVersionPage(c, rejection),
      async (c) => {
        const { admin, appId, mode } = c.var;
        await deletePriceList(admin, appId, mode, readVersion(c));
        return "prices?notice=deleted";
      },
    ),
  );

import { newPriceList } from "../api/prices/price-rules.ts";
import { setPrices } from "../books/prices/change-prices.ts";
import { type CostRule, type PriceRule, unreachableRules } from "../books/prices/price.ts";
import { listPriceLists, readPriceList } from "../books/prices/price-lists.ts";
import { previewList } from "../books/usage/preview-list.ts";
import { invalid, type PurserError } from "../errors.ts";
import { iso } from "../lib/time.ts";
import { confirmPage } from "./confirm.tsx";
import { createDashboardRoutes, type PageContext, parseForm } from "./form.ts";
import { FormCard, onSubmit } from "./form-card.tsx";
import { timeText } from "./format.tsx";
import { page } from "./layout.tsx";
import { ListChanges } from "./price-changes.tsx";
import { checkDraft, draftOfList, givenNumber, type ListDraft, type NewList, readListDraft } from "./price-draft.ts";
import { PriceForm } from "./price-form.tsx";
import { Preview } from "./price-preview.tsx";
import { repeatable } from "./session.tsx";

const BLANK_ROWS = 3;
const NO_LIST: { readonly rules: PriceRule[]; readonly costs: CostRule[] } = { rules: [], costs: [] };

/** Returns a version's list, by default the newest one's, and the newest number. 0 for none. */
async function readBase(c: PageContext, version?: number) {
  const { appId, mode } = c.var;
  const { versions } = await listPriceLists(c.var.root, appId, { mode, limit: 1 });
  const newest = versions[0]?.version ?? 0;
  const of = version ?? newest;
  return { newest, list: of === 0 ? NO_LIST : await readPriceList(c.var.root, appId, mode, of) };
}

const editPage = (
  c: PageContext,
  draft: ListDraft,
  { rejections = [], blank = BLANK_ROWS }: { rejections?: readonly PurserError[]; blank?: number } = {},
) => {
  const [rejection] = rejections;
  return page(
    c,
    { title: "Edit the price list", section: "prices", rejection },
    <PriceForm draft={draft} rejections={rejections} blank={blank} />,
  );
};

async function openEditor(c: PageContext) {
  const { newest, list } = await readBase(c, givenNumber(c.req.query("version")));
  return editPage(c, draftOfList(list, { effectiveAt: "", note: "", ifVersion: `${newest}` }));
}

/** Shows what a list changes and would have charged, and asks to confirm it. */
async function reviewPage(c: PageContext, list: NewList, rejection?: PurserError) {
  const [{ newest, list: before }, preview] = await Promise.all([readBase(c), previewList(c.var.ctx, list.rules)]);
  const { rules, costs, effectiveAt, ifVersion, note } = list;
  const unreachable = unreachableRules(rules);
  const from = effectiveAt === undefined ? "now" : `from ${timeText(iso(effectiveAt))} UTC`;
  const fields = {
    list: JSON.stringify({ rules, costs, note, ifVersion }),
    ...(effectiveAt === undefined ? {} : { effectiveAt: iso(effectiveAt) }),
  };
  return confirmPage(
    c,
    {
      title: "Review the price list",
      action: "prices",
      fields: { ...fields, nonce: c.var.form.nonce ?? c.var.root.newId("") },
      button: effectiveAt === undefined ? "Put in force" : "Schedule this version",
      cancel: "prices",
      warnings: [
        ...unreachable.map(
          ({ rule, coveredBy }) => `Rule ${rule + 1} can never apply: rule ${coveredBy + 1} covers it.`,
        ),
        ...(preview.unpriced.length === 0 ? [] : ["Some events of the last days have no price in this list."]),
      ],
      rejection,
      below: (
        <>
          <FormCard action="prices/edit" fields={fields} button="Change it" />
          <Preview preview={preview} />
        </>
      ),
    },
    <>
      <h2>Changes of version {newest}</h2>
      <ListChanges before={before.rules} after={rules} label="Changed rules" />
      <h2>Changes of your own costs</h2>
      <ListChanges before={before.costs} after={costs} label="Changed costs" />
      <p>The new version is in force {from}. It never changes, and reprices nothing that is recorded.</p>
    </>,
  );
}

/** Reads the list that a review sends. */
function reviewedList({ list = "", effectiveAt }: Readonly<Record<string, string>>, mode: "live" | "test"): NewList {
  let read: object;
  try {
    read = Object(JSON.parse(list));
  } catch {
    throw invalid("list", "must be the JSON of a review");
  }
  return parseForm(newPriceList.unwrap(), { ...read, mode, ...(effectiveAt === undefined ? {} : { effectiveAt }) });
}

export const pricesEditRoutes = createDashboardRoutes()
  .get("/prices/edit", openEditor)
  .post("/prices/edit", (c) => {
    const { effectiveAt, note, ifVersion, ...list } = reviewedList(c.var.form, c.var.mode);
    const at = effectiveAt === undefined ? "" : iso(effectiveAt).slice(0, 19);
    return editPage(c, draftOfList(list, { effectiveAt: at, note: note ?? "", ifVersion: `${ifVersion ?? 0}` }));
  })
  .post("/prices/review", (c) => {
    const draft = readListDraft(c.var.form);
    if (c.var.form.more === "yes")
      return editPage(c, draft, { blank: Math.min(givenNumber(c.var.form.blank) ?? 0, 500) });
    const { list, rejections } = checkDraft(draft, c.var.mode);
    return list === undefined ? editPage(c, draft, { rejections }) : reviewPage(c, list);
  })
  .post(
    "/prices",
    onSubmit(
      async (c) => {
        const { form, appId, mode } = c.var;
        const { version } = await setPrices(await repeatable(c), appId, reviewedList(form, mode));
        return `prices/${version}?notice=made`;
      },
      (c, form, rejection) => reviewPage(c, reviewedList(form, c.var.mode), rejection),
    ),
  );

import { listPriceLists, readPriceList } from "../books/prices/price-lists.ts";
import { previewList } from "../books/usage/preview-list.ts";
import { Card } from "./components.tsx";
import { Choice } from "./fields.tsx";
import { createDashboardRoutes, type PageContext } from "./form.ts";
import { FormCard } from "./form-card.tsx";
import { timeText } from "./format.tsx";
import { page } from "./layout.tsx";
import { ListChanges } from "./price-changes.tsx";
import { givenNumber } from "./price-draft.ts";
import { Preview } from "./price-preview.tsx";

const COMPARED_MAX = 500;
/** Stands for the empty list before the first version. */
const BEFORE_FIRST = 0;

/** Shows what changed between two versions, and what the later one would have charged the last week. */
async function comparePage(c: PageContext) {
  const { appId, mode } = c.var;
  const { versions } = await listPriceLists(c.var.root, appId, { mode, limit: COMPARED_MAX });
  const query = c.req.query();
  const to = givenNumber(query.to) ?? versions[0]?.version;
  const from = givenNumber(query.from) ?? versions.find(({ version }) => version < (to ?? 0))?.version ?? BEFORE_FIRST;
  const read = (version = BEFORE_FIRST) =>
    version === BEFORE_FIRST ? null : readPriceList(c.var.root, appId, mode, version);
  const [before, after] = await Promise.all([read(from), read(to)]);
  const preview = after === null ? null : await previewList(c.var.ctx, after.rules);
  const options = versions.map(
    ({ version, effectiveAt }) => [`${version}`, `${version}, from ${timeText(effectiveAt)}`] as const,
  );
  return page(
    c,
    { title: "Compare versions", section: "prices" },
    <>
      <FormCard action="prices/compare" method="get" button="Compare">
        <Choice
          label="Version before"
          name="from"
          value={`${from}`}
          options={[[`${BEFORE_FIRST}`, "no list"], ...options]}
        />
        <Choice label="Version after" name="to" value={`${to ?? ""}`} options={options} />
      </FormCard>
      <Card title="Rules">
        <ListChanges before={before?.rules ?? []} after={after?.rules ?? []} label="Changed rules" />
        <h2>Your own costs</h2>
        <ListChanges before={before?.costs ?? []} after={after?.costs ?? []} label="Changed costs" />
      </Card>
      {preview !== null && <Preview preview={preview} />}
    </>,
  );
}

export const pricesCompareRoutes = createDashboardRoutes().get("/prices/compare", comparePage);

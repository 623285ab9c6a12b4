import type { MatchRule } from "../books/amounts/match.ts";
import { listPacks, type PackOutput } from "../catalog/pack.ts";
import { AppLink, LinkButton } from "./app-link.tsx";
import { fieldColumn, realTimeColumn, shownColumn } from "./columns.tsx";
import { Empty, Id, Tag } from "./components.tsx";
import type { PageContext } from "./form.ts";
import { listRoutes, type Resource, wholeList } from "./resource.tsx";
import { UnitAmount, UnitLabel } from "./unit-amount.tsx";

/** Shows what a balance or pack pays for: `event`, `event · model`, or `* · model` for a rule with a model only. */
export const RuleList = ({ matches }: { matches: readonly MatchRule[] }) => (
  <span class="rules">
    {matches.length === 0 && <span class="soft">all events</span>}
    {matches.map((rule) => (
      <code>
        {rule.event ?? "*"}
        {rule.model === undefined ? null : ` · ${rule.model}`}
      </code>
    ))}
  </span>
);

/** How many packs the page of packs shows, and forms offer. */
export const SHOWN_PACKS_MAX = 200;
export const PACK_NOTICES: Readonly<Record<string, string>> = {
  created: "Pack created.",
  saved: "Pack saved. Existing balances are unchanged.",
  archived: "Pack archived. Its name can be used again.",
  restored: "Pack restored. It can be granted again.",
};

/** Shows what a grant of the pack issues. */
export const Contents = ({ pack }: { pack: PackOutput }) =>
  pack.items.length === 0 ? (
    <>
      any quantity of <UnitLabel unit={pack.unit ?? ""} /> for <RuleList matches={pack.matches ?? []} />
    </>
  ) : (
    pack.items.map((item) => (
      <div>
        <UnitAmount of={item.amount} unit={item.unit} /> for <RuleList matches={item.matches} />
      </div>
    ))
  );

const packsList: Resource<PackOutput> = {
  path: "packs",
  title: "Credit packs",
  section: "packs",
  label: "Packs",
  about: "Live and test mode share packs.",
  columns: [
    fieldColumn("packName", "Name", ({ packId, packName, archivedAt }) => (
      <>
        <AppLink to={`packs/${packId}`}>{packName}</AppLink>{" "}
        {archivedAt === null ? null : <Tag kind="revoked">archived</Tag>}
      </>
    )),
    { name: "contents", head: "Contents", cell: (pack) => <Contents pack={pack} /> },
    shownColumn("defaultExpiryDays", "Expires after", ({ defaultExpiryDays }) =>
      defaultExpiryDays === null ? "never" : `${defaultExpiryDays} days`,
    ),
    fieldColumn("packId", "Pack id", ({ packId }) => <Id id={packId} />),
    realTimeColumn("createdAt", "Created"),
  ],
  read: wholeList(async (c) => {
    const { packs } = await listPacks(c.var.root, c.var.ctx.environment.appId, SHOWN_PACKS_MAX);
    const isArchived = ({ archivedAt }: PackOutput) => Number(archivedAt !== null);
    return packs.toSorted((a, b) => isArchived(a) - isArchived(b));
  }),
  empty: (
    <Empty icon="packs" title="No packs yet">
      A pack defines what a grant issues: amounts, the events that they pay for, and when they expire.
    </Empty>
  ),
  notices: PACK_NOTICES,
  actions: () => <LinkButton text="New pack" kind="main" to="packs/new" />,
  foot: (_, { list }) =>
    list.rows.length === SHOWN_PACKS_MAX ? <p class="soft">Showing the first {SHOWN_PACKS_MAX}.</p> : null,
};

export const packsRoutes = listRoutes(packsList);

/** Returns the packs that a filter of a list offers. */
export async function packChoices({ var: { ctx, root } }: PageContext) {
  const { packs } = await listPacks(root, ctx.environment.appId, SHOWN_PACKS_MAX);
  return [["", "all"], ...packs.map(({ packId, packName }) => [packId, packName] as const)] as const;
}

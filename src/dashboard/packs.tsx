import type { Context } from "hono";
import type { Child } from "hono/jsx";
import type { MatchRule } from "../books/amounts/match.ts";
import { listPacks, type PackOutput } from "../catalog/pack.ts";
import { Empty, Id, Table } from "./components.tsx";
import { createDashboardRoutes, type DashboardEnv } from "./form.ts";
import { amountText, Time } from "./format.tsx";
import { page, pathIn } from "./layout.tsx";

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
      any quantity of {pack.unit} for <RuleList matches={pack.matches ?? []} />
    </>
  ) : (
    pack.items.map((item) => (
      <div>
        {amountText(item.amount)} {item.unit} for <RuleList matches={item.matches} />
      </div>
    ))
  );

async function packsPage(c: Context<DashboardEnv>) {
  const { packs } = await listPacks(c.var.root, c.var.ctx.environment.appId, SHOWN_PACKS_MAX);
  const table = (label: string, some: readonly PackOutput[], empty: Child) => (
    <Table
      label={label}
      csv="packs"
      head={["Name", "Contents", "Expires after", "Pack id", "Created"]}
      empty={empty}
      rows={some.map((pack) => [
        <a href={pathIn(c, `packs/${pack.packId}`)}>{pack.packName}</a>,
        <Contents pack={pack} />,
        pack.defaultExpiryDays === null ? "never" : `${pack.defaultExpiryDays} days`,
        <Id id={pack.packId} />,
        <Time at={pack.createdAt} />,
      ])}
    />
  );
  const archived = packs.filter((pack) => pack.archivedAt !== null);
  return page(
    c,
    {
      title: "Credit packs",
      section: "packs",
      notice: PACK_NOTICES[c.req.query("notice") ?? ""],
      actions: (
        <a class="button" href={pathIn(c, "packs/new")}>
          New pack
        </a>
      ),
    },
    <>
      <section class="card">
        {table(
          "Packs",
          packs.filter((pack) => pack.archivedAt === null),
          <Empty icon="packs" title="No packs yet">
            A pack defines what a grant issues: amounts, the events that they pay for, and when they expire.
          </Empty>,
        )}
        <p class="soft">Live and test mode share packs.</p>
        {packs.length === SHOWN_PACKS_MAX && <p class="soft">Showing the first {SHOWN_PACKS_MAX}.</p>}
      </section>
      {archived.length > 0 && (
        <section class="card">
          <h2>Archived</h2>
          {table("Archived packs", archived, "")}
        </section>
      )}
    </>,
  );
}

export const packsRoutes = createDashboardRoutes().get("/packs", packsPage);

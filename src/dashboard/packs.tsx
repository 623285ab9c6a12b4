import type { Context } from "hono";
import { listPacks } from "../catalog/packs/pack.ts";
import type { PackOutput } from "../catalog/packs/responses.ts";
import { Table } from "./components.tsx";
import { createDashboardRoutes, type DashboardEnv } from "./env.ts";
import { amount, time } from "./format.ts";
import { page, pathIn } from "./layout.tsx";
import { Rules } from "./rules.tsx";

const SHOWN_MAX = 200;
export const NOTICES: Readonly<Record<string, string>> = {
  created: "Pack created.",
  saved: "Pack saved. Existing balances are unchanged.",
  archived: "Pack archived. Its name can be used again.",
  restored: "Pack restored. It can be granted again.",
};

/** What a grant of the pack issues. */
export const Contents = ({ pack }: { pack: PackOutput }) =>
  pack.items.length === 0 ? (
    <>
      any quantity of {pack.unit} for <Rules matches={pack.matches ?? []} />
    </>
  ) : (
    pack.items.map((item) => (
      <div>
        {amount(item.amount)} {item.unit} for <Rules matches={item.matches} />
      </div>
    ))
  );

async function packsPage(c: Context<DashboardEnv>) {
  const { packs } = await listPacks(c.var.root, c.var.ctx.environment.appId, SHOWN_MAX);
  const table = (label: string, some: readonly PackOutput[], empty: string) => (
    <Table
      label={label}
      head={["Name", "Contents", "Expires after", "Pack id", "Created (UTC)"]}
      empty={empty}
      rows={some.map((pack) => [
        <a href={pathIn(c, `packs/${pack.packId}`)}>{pack.packName}</a>,
        <Contents pack={pack} />,
        pack.defaultExpiryDays === null ? "never" : `${pack.defaultExpiryDays} days`,
        <code>{pack.packId}</code>,
        <span class="num">{time(pack.createdAt)}</span>,
      ])}
    />
  );
  const archived = packs.filter((pack) => pack.archivedAt !== null);
  return page(
    c,
    { title: "Credit packs", section: "packs", notice: NOTICES[c.req.query("notice") ?? ""] },
    <>
      <p>
        <a class="button" href={pathIn(c, "packs/new")}>
          New pack
        </a>{" "}
        <span class="soft">Packs are shared by live and test mode.</span>
      </p>
      <section class="card">
        {table(
          "Packs",
          packs.filter((pack) => pack.archivedAt === null),
          "No packs yet.",
        )}
        {packs.length === SHOWN_MAX && <p class="soft">Showing the first {SHOWN_MAX}.</p>}
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

export const packsRoutes = () => createDashboardRoutes().get("/packs", packsPage);

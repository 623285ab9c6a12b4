import type { Context } from "hono";
import { DAY_MS, iso } from "../lib/time.ts";
import { Amounts, numbers, Table } from "./components.tsx";
import type { PackFigure } from "./figures/read.ts";
import type { Business } from "./figures/read-business.ts";
import { type FigureName, figurePath } from "./figures.tsx";
import type { DashboardEnv } from "./form.ts";
import { Updated } from "./format.tsx";
import { pathIn } from "./layout.tsx";

interface PacksProps {
  readonly c: Context<DashboardEnv>;
  readonly business: Business | null;
  readonly packs: readonly PackFigure[];
  /** The first of the days. */
  readonly from: number;
  readonly days: number;
}

/** How many packs are shown. */
const SHOWN_FIGURES_MAX = 50;

export const Packs = ({ c, business, packs, from, days }: PacksProps) => {
  const outstanding = business?.byPack ?? [];
  const ids = [...new Set([...packs, ...outstanding].map(({ packId }) => packId))];
  if (ids.length === 0) return null;
  const of = (kind: PackFigure["kind"], packId: string) =>
    packs.filter((figure) => figure.kind === kind && figure.packId === packId);
  const dates = { from: iso(from).slice(0, 10), to: iso(from + (days - 1) * DAY_MS).slice(0, 10) };
  const lead = (figure: FigureName, packId: string) => (unit: string) =>
    pathIn(c, figurePath(figure, { unit, packId, ...dates }));
  return (
    <section class="card" id="packs">
      <div class="card-head">
        <h2>By pack</h2>
        {business !== null && <Updated at={business.finishedAt} what="Outstanding" />}
      </div>
      <Table
        label="By pack"
        csv="by-pack"
        head={["Pack", numbers(`Granted, ${days} days`), numbers(`Spent, ${days} days`), numbers("Outstanding")]}
        empty=""
        rows={ids
          .slice(0, SHOWN_FIGURES_MAX)
          .map((packId) => [
            <a href={pathIn(c, `packs/${packId}`)}>
              {packs.find((figure) => figure.packId === packId)?.packName ?? packId}
            </a>,
            <Amounts of={of("granted_of", packId)} hrefOf={lead("granted", packId)} />,
            <Amounts of={of("spent_of", packId)} hrefOf={lead("spent", packId)} />,
            business === null ? (
              <span class="soft">not computed yet</span>
            ) : (
              <Amounts of={outstanding.find((each) => each.packId === packId)?.amounts ?? []} />
            ),
          ])}
      />
      {(ids.length > SHOWN_FIGURES_MAX || business?.isPartial === true) && <p class="soft">Not all packs are shown.</p>}
    </section>
  );
};

/** Shows what to do when there is nothing yet. */
export const FirstSteps = ({ c }: { c: Context<DashboardEnv> }) => (
  <section class="card" id="first-steps">
    <h2>First steps</h2>
    <ol class="steps">
      <li>
        <a href={pathIn(c, "packs/new")}>Create a pack</a>: what a grant issues, and what it pays for.
      </li>
      <li>
        <a href={pathIn(c, "keys")}>Create a secret key</a> for your backend.
      </li>
      <li>
        <a href={pathIn(c, "users/grant")}>Grant the pack to a user</a>, here or by{" "}
        <code>POST /api/v1/credits/grant</code>.
      </li>
      <li>
        Record usage by <code>POST /api/v1/usage/events</code>. <a href="/docs">The reference</a> has every call.
      </li>
    </ol>
  </section>
);

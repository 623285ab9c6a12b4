import type { Context } from "hono";
import { DAY_MS, iso } from "../lib/time.ts";
import { countedDeliveriesMax, type EndpointLag } from "../webhooks/delete-old.ts";
import { Amounts, Table } from "./components.tsx";
import type { DashboardEnv } from "./env.ts";
import type { PackFigure } from "./figures/read.ts";
import type { Business } from "./figures/read-business.ts";
import { type FigureName, figurePath } from "./figures.tsx";
import { amount, span, time } from "./format.ts";
import { pathIn } from "./layout.tsx";

interface BusinessProps {
  readonly c: Context<DashboardEnv>;
  readonly business: Business;
}

/** When the figures were computed: each user as it was when the walk came by. */
const When = ({ business }: Pick<BusinessProps, "business">) => (
  <p class="soft">
    Computed hourly: {time(business.beganAt)} to {time(business.finishedAt)} (UTC). What changed since is not in it.
  </p>
);

/** What the business owes its users. */
export const Outstanding = ({ c, business }: BusinessProps) => (
  <section class="card" id="outstanding">
    <h2>Outstanding</h2>
    {business.outstanding.length === 0 && <p class="empty">No credits are outstanding.</p>}
    <dl class="facts">
      {business.outstanding.map((each) => (
        <>
          <dt>{each.unit}</dt>
          <dd>
            <a href={pathIn(c, "users")}>
              <b class="num">{amount(each.amount)}</b>
            </a>
          </dd>
        </>
      ))}
    </dl>
    <When business={business} />
  </section>
);

export const ActiveUsers = ({ c, business }: BusinessProps) => (
  <section class="card" id="active">
    <h2>Users</h2>
    <dl class="facts">
      <dt>In all</dt>
      <dd>
        <a href={pathIn(c, "users")}>
          <b class="num">{amount(business.users)}</b>
        </a>
      </dd>
      {business.active.map(({ days, users }) => (
        <>
          <dt>Active in {days} days</dt>
          <dd>
            <a href={pathIn(c, "users")}>
              <b class="num">{amount(users)}</b>
            </a>
          </dd>
        </>
      ))}
    </dl>
    <p class="soft">
      Active: something was written for the user, to the day. It is approximate: a server process that ends may not have
      written it.
    </p>
    <When business={business} />
  </section>
);

/** How far the messages to endpoints lag behind. */
export const Webhooks = ({ c, lag }: { c: Context<DashboardEnv>; lag: readonly EndpointLag[] }) => (
  <section class="card" id="webhooks">
    <h2>Webhooks</h2>
    <dl class="facts">
      {lag.map((endpoint) => (
        <>
          <dt>
            <a href={pathIn(c, `webhooks/${endpoint.webhookId}`)}>{endpoint.url}</a>
          </dt>
          <dd>{lagText(endpoint, c.var.ctx.realNow())}</dd>
        </>
      ))}
    </dl>
  </section>
);

function lagText({ isEnabled, waiting, oldestAt }: EndpointLag, nowMs: number): string {
  if (!isEnabled) return "off: nothing is sent to it";
  if (waiting === 0 || oldestAt === null) return "no message is waiting";
  const count = waiting > countedDeliveriesMax ? `more than ${amount(countedDeliveriesMax)}` : amount(waiting);
  return `${count} waiting, the oldest for ${span(nowMs - Date.parse(oldestAt))}`;
}

interface PacksProps {
  readonly c: Context<DashboardEnv>;
  readonly business: Business | null;
  readonly packs: readonly PackFigure[];
  /** The first of the days. */
  readonly from: number;
  readonly days: number;
}

/** How many packs are shown. */
const SHOWN_MAX = 50;

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
      <h2>By pack</h2>
      <Table
        label="By pack"
        head={["Pack", `Granted, ${days} days`, `Spent, ${days} days`, "Outstanding"]}
        empty=""
        rows={ids
          .slice(0, SHOWN_MAX)
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
      {(ids.length > SHOWN_MAX || business?.isPartial === true) && <p class="soft">Not all packs are shown.</p>}
    </section>
  );
};

/** What to do when there is nothing yet. */
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

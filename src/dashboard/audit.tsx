import type { Context } from "hono";
import { ACTIONS } from "../catalog/audit/audit-statement.ts";
import { searchAudit, searchedActsMax } from "../catalog/audit/list.ts";
import { Acts } from "./acts.tsx";
import { Choice, Field, Pager } from "./components.tsx";
import { createDashboardRoutes, type DashboardEnv } from "./env.ts";
import { catchRefusal, textField } from "./form.ts";
import { amount, query } from "./format.ts";
import { page, pathIn } from "./layout.tsx";

const ROWS = 50;

async function auditPage(c: Context<DashboardEnv>) {
  const form = c.req.query();
  const filters = {
    by: textField(form, "by"),
    action: textField(form, "action"),
    target: textField(form, "target")?.trim(),
  };
  const found = await catchRefusal(() =>
    searchAudit(c.var.root, c.var.ctx.environment.appId, filters, { limit: ROWS, cursor: textField(form, "cursor") }),
  );
  const { entries = [], nextCursor = null } = found.result ?? {};
  const isFiltered = Object.values(filters).some((value) => value !== undefined);
  const link = (cursor?: string) => `${pathIn(c, "audit")}${query({ ...filters, cursor })}`;
  return page(
    c,
    { title: "Audit", section: "audit", refusal: found.refusal },
    <>
      <form method="get" action={pathIn(c, "audit")} class="card row">
        <Field label="By" name="by" value={filters.by} hint="the whole name" />
        <Choice
          label="Action"
          name="action"
          value={filters.action ?? ""}
          options={[["", "all"], ...ACTIONS.map((each) => [each, each] as const)]}
        />
        <Field label="About (an id)" name="target" value={filters.target} placeholder="cpk_…, crb_…, key_…" />
        <button type="submit">Filter</button>
      </form>
      <section class="card">
        <p class="soft">
          Every act of administration of this application, in both modes, by API or dashboard. Nothing can change it.
        </p>
        <Acts c={c} label="Acts" entries={entries} empty="No acts here." hasTargets />
        {isFiltered && nextCursor !== null && (
          <p class="soft">This page searched {amount(searchedActsMax)} acts. Older pages may have more.</p>
        )}
        <Pager first={form.cursor === undefined ? null : link()} next={nextCursor && link(nextCursor)} />
      </section>
    </>,
  );
}

export const auditRoutes = () => createDashboardRoutes().get("/audit", auditPage);

import type { Context } from "hono";
import { createApp } from "../apps/create-app.ts";
import { listApps } from "../apps/list-apps.ts";
import { createAppInput } from "../apps/schemas.ts";
import type { PurserError } from "../errors.ts";
import { Field, Table } from "./components.tsx";
import { createDashboardRoutes, type DashboardEnv } from "./env.ts";
import { catchRefusal, parseForm } from "./form.ts";
import { time } from "./format.ts";
import { FormToken, page } from "./layout.tsx";

const SHOWN_MAX = 200;

async function appsPage(c: Context<DashboardEnv>, name: string, refusal?: PurserError) {
  const { apps } = await listApps(c.var.root, SHOWN_MAX);
  return page(
    c,
    { title: "Applications", refusal },
    <>
      <section class="card">
        <Table
          label="Applications"
          head={["Name", "Application id", "Created (UTC)", "Open"]}
          empty="No applications yet. Create one below."
          rows={apps.map((app) => [
            <a href={`/admin/apps/${app.appId}/live/overview`}>{app.name}</a>,
            <code>{app.appId}</code>,
            <span class="num">{time(app.createdAt)}</span>,
            <>
              <a href={`/admin/apps/${app.appId}/live/overview`}>live</a>{" "}
              <a href={`/admin/apps/${app.appId}/test/overview`}>test</a>
            </>,
          ])}
        />
        {apps.length === SHOWN_MAX && <p class="soft">Showing the first {SHOWN_MAX}.</p>}
      </section>
      <form method="post" action="/admin/apps" class="card">
        <h2>New application</h2>
        <FormToken c={c} />
        <div class="row">
          <Field label="Name" name="name" value={name} required isBad={refusal?.param === "name"} />
          <button type="submit">Create an application</button>
        </div>
        <p class="soft">It has a live and a test mode. Create its keys next.</p>
      </form>
    </>,
  );
}

export const appsRoutes = () =>
  createDashboardRoutes()
    .get("/apps", (c) => appsPage(c, ""))
    .post("/apps", async (c) => {
      const { form, admin } = c.var;
      const created = await catchRefusal(async () =>
        createApp(admin, parseForm(createAppInput, { name: form.name ?? "" })),
      );
      if (created.refusal !== undefined) return appsPage(c, form.name ?? "", created.refusal);
      return c.redirect(`/admin/apps/${created.result.appId}/test/keys?notice=app`, 303);
    });

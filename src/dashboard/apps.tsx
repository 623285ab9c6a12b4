import type { Context } from "hono";
import { createAppInput } from "../api/apps/create-app.ts";
import { createApp, listApps } from "../catalog/apps.ts";
import type { PurserError } from "../errors.ts";
import { Table } from "./components.tsx";
import { Choice, Field } from "./fields.tsx";
import { catchRejection, createDashboardRoutes, type DashboardEnv, parseForm } from "./form.ts";
import { Time } from "./format.tsx";
import { FormToken, page } from "./layout.tsx";

const SHOWN_APPS_MAX = 200;

async function appsPage(c: Context<DashboardEnv>, name: string, rejection?: PurserError) {
  const { root } = c.var;
  const { apps, unreachable = [] } = await listApps(root, SHOWN_APPS_MAX);
  return page(
    c,
    { title: "Applications", rejection },
    <>
      <section class="card">
        <Table
          label="Applications"
          csv="applications"
          head={["Name", "Application id", "Database", "Created", "Open"]}
          empty="No applications yet. Create one below."
          rows={apps.map((app) => [
            <a href={`/admin/apps/${app.appId}/live/overview`}>{app.name}</a>,
            <code>{app.appId}</code>,
            <code>{app.database}</code>,
            <Time at={app.createdAt} />,
            <>
              <a href={`/admin/apps/${app.appId}/live/overview`}>live</a>{" "}
              <a href={`/admin/apps/${app.appId}/test/overview`}>test</a>
            </>,
          ])}
        />
        {unreachable.length > 0 && (
          <p role="alert">Not reached: {unreachable.join(", ")}. Their applications are not in this list.</p>
        )}
        {apps.length >= SHOWN_APPS_MAX && <p class="soft">Showing the first {SHOWN_APPS_MAX}.</p>}
      </section>
      <form method="post" action="/admin/apps" class="card">
        <h2>New application</h2>
        <FormToken c={c} />
        <div class="row">
          <Field label="Name" name="name" value={name} required rejection={rejection} />
          {root.databases.length > 1 && (
            <Choice
              label="Database"
              name="database"
              value={root.settings.newAppsDatabase}
              options={root.databases.map((database) => [database.name, database.name])}
            />
          )}
          <button type="submit">Create an application</button>
        </div>
        <p class="soft">It has a live and a test mode. Create its keys next.</p>
      </form>
    </>,
  );
}

export const appsRoutes = createDashboardRoutes()
  .get("/apps", (c) => appsPage(c, ""))
  // The script reads this list to fill the switcher.
  .get("/apps/list", async (c) => {
    const { apps } = await listApps(c.var.root, SHOWN_APPS_MAX);
    return c.json({ apps: apps.map(({ appId, name }) => ({ appId, name })) });
  })
  .post("/apps", async (c) => {
    const { form, admin } = c.var;
    const created = await catchRejection(async () => {
      const { name = "", database } = form;
      return createApp(admin, parseForm(createAppInput, { name, ...(database === undefined ? {} : { database }) }));
    });
    if (created.rejection !== undefined) return appsPage(c, form.name ?? "", created.rejection);
    return c.redirect(`/admin/apps/${created.result.appId}/test/keys?notice=app`, 303);
  });

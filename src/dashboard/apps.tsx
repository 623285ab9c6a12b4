import { createAppInput } from "../api/apps/create-app.ts";
import { type AppOutput, createApp, type ListAppsOutput, listApps } from "../catalog/apps.ts";
import { codeColumn, linkColumn, timeColumn } from "./columns.tsx";
import { Choice, Field } from "./fields.tsx";
import { createDashboardRoutes, parseForm } from "./form.ts";
import { FormCard, onSubmit } from "./form-card.tsx";
import { listAgain, listRoutes, type Resource } from "./resource.tsx";
import { repeatable } from "./session.tsx";

const SHOWN_APPS_MAX = 200;

const appsList: Resource<AppOutput, Pick<ListAppsOutput, "unreachable">> = {
  path: "/admin/apps",
  title: "Applications",
  columns: [
    linkColumn("name", "Name", ({ appId }) => `/admin/apps/${appId}/live/overview`),
    codeColumn("appId", "Application id"),
    codeColumn("database", "Database"),
    timeColumn("createdAt", "Created"),
    {
      name: "open",
      head: "Open",
      cell: ({ appId }) => (
        <span class="ranges">
          {["live", "test"].map((mode) => (
            <a href={`/admin/apps/${appId}/${mode}/overview`}>{mode}</a>
          ))}
        </span>
      ),
    },
  ],
  read: (c) => async () => {
    const { apps, unreachable } = await listApps(c.var.root, SHOWN_APPS_MAX);
    return { rows: apps, nextCursor: null, unreachable };
  },
  empty: "No applications yet. Create one below.",
  foot: (_, { first, list }) => (
    <>
      {first?.unreachable?.length !== undefined && first.unreachable.length > 0 && (
        <p role="alert">Not reached: {first.unreachable.join(", ")}. Their applications are not in this list.</p>
      )}
      {list.rows.length >= SHOWN_APPS_MAX && <p class="soft">Showing the first {SHOWN_APPS_MAX}.</p>}
    </>
  ),
  below: (c, { rejection }) => {
    const { databases, settings } = c.var.root;
    return (
      <FormCard
        action="/admin/apps"
        title="New application"
        about="It has a live and a test mode. Create its keys next."
        form={{ database: settings.newAppsDatabase, ...c.var.form }}
        rejection={rejection}
        schema={createAppInput}
        once
        button="Create an application"
      >
        <Field label="Name" name="name" />
        {databases.length > 1 && (
          <Choice label="Database" name="database" options={databases.map(({ name }) => name)} />
        )}
      </FormCard>
    );
  },
};

export const appsRoutes = createDashboardRoutes()
  .route("/", listRoutes(appsList))
  // The script reads this list to fill the switcher.
  .get("/apps/list", async (c) => {
    const { apps } = await listApps(c.var.root, SHOWN_APPS_MAX);
    return c.json({ apps: apps.map(({ appId, name }) => ({ appId, name })) });
  })
  .post(
    "/apps",
    onSubmit(async (c) => {
      const { name = "", database } = c.var.form;
      const { appId } = await createApp(await repeatable(c), parseForm(createAppInput, { name, database }));
      return `/admin/apps/${appId}/test/keys?notice=app`;
    }, listAgain(appsList)),
  );

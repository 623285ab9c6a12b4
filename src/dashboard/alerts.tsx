import { changeAlertInput } from "../api/alerts/change-alert.ts";
import { createAlertInput } from "../api/alerts/create-alert.ts";
import { listAlertUsersInput } from "../api/alerts/list-alert-users.ts";
import { setExpiryNoticesInput } from "../api/alerts/set-expiry-notices.ts";
import {
  type AlertOfApp,
  type AlertOutput,
  createAlert,
  listAlerts,
  listAlertUsers,
  presentAlert,
  requireAlert,
} from "../books/alerts/alerts.ts";
import { readExpiryNotices, setExpiryNotices } from "../books/alerts/expiry-notices.ts";
import { changeAlert, deleteAlert } from "../books/alerts/update-alert.ts";
import { PurserError } from "../errors.ts";
import { pathIn } from "./app-link.tsx";
import { linkColumn, menuColumn, shownColumn, timeColumn } from "./columns.tsx";
import { Empty, Pager, Table } from "./components.tsx";
import { confirmPage } from "./confirm.tsx";
import { Choice, Field } from "./fields.tsx";
import { createDashboardRoutes, type Form, numberField, type PageContext, parseForm, textField } from "./form.ts";
import { FormCard, submit } from "./form-card.tsx";
import { amountText, queryString } from "./format.tsx";
import { page } from "./layout.tsx";
import { UserLink } from "./links.tsx";
import { listPage, listRoutes, type Resource, wholeList } from "./resource.tsx";
import { readRandom } from "./session.tsx";
import { UnitAmount, UnitLabel } from "./unit-amount.tsx";
import { UnitChoice } from "./unit-choice.tsx";

const MEASURES = [
  ["amount", "the unit"],
  ["percent", "percent of the issued amount"],
] as const;

/** Returns the threshold that the form gives. */
function belowField(form: Form): Record<string, unknown> {
  const measure = form.of === "percent" ? "percent" : "amount";
  const fields = measure === "percent" ? { below: (form.below ?? "").replace(/\s*%\s*$/, "") } : form;
  return { [measure]: numberField(fields, "below", `below.${measure}`) };
}

/** Shows the amount below which an alert is triggered. */
const BelowText = ({ of: { below, unit } }: { of: AlertOutput }) =>
  "amount" in below ? (
    <UnitAmount of={below.amount} unit={unit} />
  ) : (
    <>
      {below.percent} % of what was issued in <UnitLabel unit={unit} />
    </>
  );

/** The fields that the forms for a new and for an existing alert share. */
const AlertFields = ({ form }: { form: Form }) => (
  <>
    <Field label="Name" name="name" />
    <Field label="Below" name="below" param={`below.${form.of ?? ""}`} required />
    <Choice label="Counted in" name="of" options={MEASURES} />
    <Field label="Event (optional)" name="event" placeholder="chat.*" />
  </>
);

const alertsList: Resource<AlertOutput> = {
  path: "alerts",
  title: "Alerts",
  section: "alerts",
  about: (
    <>
      Send <code>credits.low</code> when a user has less than this (reserved credits count). It is sent again after a
      grant or an adjustment has raised the user above this amount. <code>credits.depleted</code> needs no alert.
    </>
  ),
  columns: [
    linkColumn("name", "Name", ({ alertId }) => `alerts/${alertId}`),
    {
      name: "below",
      head: "Below",
      cell: (alert) => <BelowText of={alert} />,
      value: ({ below, unit }) =>
        "amount" in below ? `${amountText(below.amount)} ${unit}` : `${below.percent} % of what was issued in ${unit}`,
    },
    shownColumn("event", "Event", ({ event }) => event ?? "all"),
    timeColumn("createdAt", "Created"),
    menuColumn(
      ({ name }) => name,
      ({ alertId }) => [
        [`alerts/${alertId}`, "Edit"],
        [`alerts/${alertId}#users`, "Triggered for"],
        [`alerts/${alertId}/delete`, "Delete"],
      ],
    ),
  ],
  read: wholeList(async ({ var: { root, ctx } }) => {
    const { appId, mode } = ctx.environment;
    return (await listAlerts(root, appId, mode)).alerts;
  }),
  empty: (
    <Empty icon="bell" title="No alerts yet">
      Create one below. It sends a message to your webhook endpoints when it fires.
    </Empty>
  ),
  notices: {
    created: "Alert created.",
    deleted: "Alert deleted. It sends no more messages.",
    days: "Notices saved. They take effect now.",
  },
  below: async (c, { rejection }) => {
    const { appId, mode } = c.var.ctx.environment;
    const { days } = await readExpiryNotices(c.var.root, appId, mode);
    return (
      <>
        <FormCard
          action="alerts"
          title="New alert"
          rejection={rejection}
          schema={createAlertInput}
          once
          button="Create alert"
        >
          <AlertFields form={c.var.form} />
          <UnitChoice label="Unit" name="unit" />
        </FormCard>
        <FormCard
          action="alerts/notices"
          title="Notices of expiry"
          about={
            <>
              Warn this many days before unused credits expire. Sends <code>balance.expiring</code>. Enter up to ten
              numbers, or none. <code>balance.expired</code> needs no setting.
            </>
          }
          form={{ days: days.join(", "), ...c.var.form }}
          rejection={rejection}
          button="Save notices"
        >
          <Field label="Days before" name="days" placeholder="30, 7, 1" />
        </FormCard>
      </>
    );
  },
};

const ALERT_PATH = "/alerts/:alertId";
const ALERT_ROWS = "50";

/** Returns the alert in the path. Throws `not_found` for an alert of the other mode. */
async function alertOfPage(c: PageContext): Promise<AlertOfApp> {
  const { appId, mode } = c.var.ctx.environment;
  const alert = await requireAlert(c.var.root, appId, c.req.param("alertId") ?? "");
  if (alert.mode !== mode) throw new PurserError("not_found", `There is no such alert in ${mode} mode.`);
  return alert;
}

async function readAlert(c: PageContext): Promise<AlertOutput> {
  const alert = await alertOfPage(c);
  return presentAlert(alert, alert.mode);
}

async function alertPage(c: PageContext, alert: AlertOutput, rejection?: PurserError) {
  const { alertId, below } = alert;
  const cursor = textField(c.req.query(), "cursor");
  const input = parseForm(listAlertUsersInput, { limit: ALERT_ROWS, cursor });
  const { users, nextCursor } = await listAlertUsers(c.var.root, await alertOfPage(c), input);
  const at = pathIn(c, `alerts/${alertId}`);
  const storedForm = {
    name: alert.name,
    event: alert.event ?? "",
    below: amountText("amount" in below ? below.amount : below.percent),
    of: "amount" in below ? "amount" : "percent",
  };
  const form = { ...storedForm, ...c.var.form };
  const notice = c.req.query("notice") === "changed" ? "Alert changed. It starts again for every user." : undefined;
  const deleteLink = (
    <a class="button quiet danger" href={`${at}/delete`}>
      Delete
    </a>
  );
  return page(
    c,
    { title: alert.name, section: "alerts", rejection, notice, actions: deleteLink },
    <>
      <FormCard
        action={at}
        title="Edit"
        about={
          <>
            Triggered when a user has less than <BelowText of={alert} />. A changed alert starts again, so it may fire
            again for users who are already below.
          </>
        }
        form={form}
        rejection={rejection}
        schema={createAlertInput}
        button="Save alert"
      >
        <AlertFields form={form} />
      </FormCard>
      <section class="card" id="users">
        <h2>Triggered for</h2>
        <p class="soft">
          Only users who have stayed below since. Recorded only while the application has an enabled endpoint.
        </p>
        <Table
          label="Triggered for"
          head={["User"]}
          csv="alert-users"
          rows={users.map(({ userId }) => [<UserLink id={userId} />])}
          empty={<Empty icon="users" title="No users" />}
        />
        <Pager
          first={cursor === undefined ? null : at}
          next={nextCursor && `${at}${queryString({ cursor: nextCursor })}`}
          words={["First users", "More users"]}
        />
      </section>
    </>,
  );
}

async function deleteAlertPage(c: PageContext) {
  const alert = await readAlert(c);
  const { alertId, name } = alert;
  return confirmPage(
    c,
    { button: "Delete alert", cancel: `alerts/${alertId}`, isDangerous: true },
    <p>
      “{name}” (below <BelowText of={alert} />) sends no more messages. This cannot be undone.
    </p>,
  );
}

export const alertsRoutes = createDashboardRoutes()
  .route("/", listRoutes(alertsList))
  .post("/alerts", (c) => {
    const { form, admin } = c.var;
    const { appId, mode } = c.var.ctx.environment;
    const create = async () => {
      const below = belowField(form);
      const fields = { mode, name: form.name, unit: form.unit, event: textField(form, "event"), below };
      const alertId = `alr_${await readRandom(c, form.nonce ?? admin.newId(""))}`;
      return createAlert(admin, appId, parseForm(createAlertInput, fields), alertId);
    };
    const again = (rejection: PurserError) => listPage(c, alertsList, rejection);
    return submit(c, create, { to: "alerts?notice=created", again });
  })
  .post("/alerts/notices", (c) => {
    const { appId, mode } = c.var.ctx.environment;
    const save = async () => {
      const texts = (c.var.form.days ?? "").split(/[\s,;]+/).filter((text) => text !== "");
      const days = texts.map((text) => (/^\d{1,15}$/.test(text) ? Number(text) : text));
      return setExpiryNotices(c.var.admin, appId, parseForm(setExpiryNoticesInput, { mode, days }));
    };
    const again = (rejection: PurserError) => listPage(c, alertsList, rejection);
    return submit(c, save, { to: "alerts?notice=days", again });
  })
  .get(ALERT_PATH, async (c) => alertPage(c, await readAlert(c)))
  .post(ALERT_PATH, async (c) => {
    const alert = await readAlert(c);
    const { form, admin } = c.var;
    const change = async () => {
      const fields = { name: form.name, event: textField(form, "event") ?? null, below: belowField(form) };
      return changeAlert(admin, await alertOfPage(c), parseForm(changeAlertInput, fields));
    };
    const again = (rejection: PurserError) => alertPage(c, alert, rejection);
    return submit(c, change, { to: `alerts/${alert.alertId}?notice=changed`, again });
  })
  .get(`${ALERT_PATH}/delete`, deleteAlertPage)
  .post(`${ALERT_PATH}/delete`, async (c) => {
    await deleteAlert(c.var.admin, await alertOfPage(c));
    return c.redirect(pathIn(c, "alerts?notice=deleted"), 303);
  });

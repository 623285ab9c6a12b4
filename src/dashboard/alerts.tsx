import { changeAlertInput } from "../api/alerts/change-alert.ts";
import { createAlertInput } from "../api/alerts/create-alert.ts";
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
import { invalid, type PurserError } from "../errors.ts";
import { LinkButton } from "./app-link.tsx";
import { customColumn, linkColumn, menuColumn, shownColumn, timeColumn, userColumn } from "./columns.tsx";
import { Empty } from "./components.tsx";
import { askRoutes, confirmPage } from "./confirm.tsx";
import { Choice, Field } from "./fields.tsx";
import {
  createDashboardRoutes,
  type Form,
  inPageMode,
  numberField,
  type PageContext,
  parseForm,
  textField,
  useRequest,
} from "./form.ts";
import { FormCard, onSubmit } from "./form-card.tsx";
import { amountText } from "./format.tsx";
import { listAgain, listRoutes, type Resource, wholeList } from "./resource.tsx";
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
  const amount = numberField(fields, "below", `below.${measure}`);
  if (amount === undefined) throw invalid(`below.${measure}`, "is required");
  return { [measure]: amount };
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
    customColumn(
      "below",
      "Below",
      (alert) => <BelowText of={alert} />,
      ({ below, unit }) =>
        "amount" in below ? `${amountText(below.amount)} ${unit}` : `${below.percent} % of what was issued in ${unit}`,
    ),
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
  read: wholeList(async ({ var: { root, appId, mode } }) => (await listAlerts(root, appId, mode)).alerts),
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
  below: async ({ var: { root, appId, mode, form } }, { rejection }) => {
    const { days } = await readExpiryNotices(root, appId, mode);
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
          <AlertFields form={form} />
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
          form={{ days: days.join(", "), ...form }}
          rejection={rejection}
          button="Save notices"
        >
          <Field label="Days before" name="days" placeholder="30, 7, 1" />
        </FormCard>
      </>
    );
  },
};

/** Returns the alert in the path. Throws `not_found` for an alert of the other mode. */
async function alertInPath(c: PageContext): Promise<AlertOfApp> {
  const { root, appId } = c.var;
  return inPageMode(c, await requireAlert(root, appId, c.req.param("alertId") ?? ""), "alert");
}

/** The page of an alert: its form, and the users for whom it was triggered. */
const alertPage: Resource<{ readonly userId: string }, { readonly alert: AlertOutput }> = {
  path: "alerts/:alertId",
  file: "alerts/:alertId/users",
  id: "users",
  title: (_, first) => first?.alert.name ?? "Alert",
  section: "alerts",
  heading: "Triggered for",
  about: "Only users who have stayed below since. Recorded only while the application has an enabled endpoint.",
  columns: [userColumn("userId", "User")],
  read: (c) => async (page) => {
    const row = await alertInPath(c);
    const { users, nextCursor } = await listAlertUsers(c.var.root, row, page);
    return { rows: users, nextCursor, alert: presentAlert(row, row.mode) };
  },
  empty: <Empty icon="users" title="No users" />,
  words: ["First users", "More users"],
  notices: { changed: "Alert changed. It starts again for every user." },
  actions: (c) => <LinkButton text="Delete" kind="danger" to={`alerts/${c.req.param("alertId")}/delete`} />,
  above: (_, { first, rejection }) => first !== null && <AlertForm alert={first.alert} rejection={rejection} />,
};

const AlertForm = ({ alert, rejection }: { alert: AlertOutput; rejection: PurserError | undefined }) => {
  const { alertId, name, event, below } = alert;
  const form = {
    ...{ name, event: event ?? "", of: "amount" in below ? "amount" : "percent" },
    below: amountText("amount" in below ? below.amount : below.percent),
    ...useRequest().var.form,
  };
  return (
    <FormCard
      action={`alerts/${alertId}`}
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
  );
};

async function askDeleteAlert(c: PageContext) {
  const row = await alertInPath(c);
  return confirmPage(
    c,
    { button: "Delete alert", cancel: `alerts/${row.id}`, isDangerous: true },
    <p>
      “{row.name}” (below <BelowText of={presentAlert(row, row.mode)} />) sends no more messages. This cannot be undone.
    </p>,
  );
}

export const alertsRoutes = createDashboardRoutes()
  .route("/", listRoutes(alertsList))
  .post(
    "/alerts",
    onSubmit(async (c) => {
      const { form, admin, appId, mode } = c.var;
      const below = belowField(form);
      const fields = { mode, name: form.name, unit: form.unit, event: textField(form, "event"), below };
      const alertId = `alr_${await readRandom(c, form.nonce ?? admin.newId(""))}`;
      await createAlert(admin, appId, parseForm(createAlertInput, fields), alertId);
      return "alerts?notice=created";
    }, listAgain(alertsList)),
  )
  .post(
    "/alerts/notices",
    onSubmit(async ({ var: { form, admin, appId, mode } }) => {
      const texts = (form.days ?? "").split(/[\s,;]+/).filter((text) => text !== "");
      const days = texts.map((text) => (/^\d{1,15}$/.test(text) ? Number(text) : text));
      await setExpiryNotices(admin, appId, parseForm(setExpiryNoticesInput, { mode, days }));
      return "alerts?notice=days";
    }, listAgain(alertsList)),
  )
  .route("/", listRoutes(alertPage))
  .post(
    "/alerts/:alertId",
    onSubmit(async (c) => {
      const { form, admin } = c.var;
      const row = await alertInPath(c);
      const fields = { name: form.name, event: textField(form, "event") ?? null, below: belowField(form) };
      await changeAlert(admin, row, parseForm(changeAlertInput, fields));
      return `alerts/${row.id}?notice=changed`;
    }, listAgain(alertPage)),
  )
  .route(
    "/",
    askRoutes("/alerts/:alertId/delete", askDeleteAlert, async (c) => {
      await deleteAlert(c.var.admin, await alertInPath(c));
      return "alerts?notice=deleted";
    }),
  );

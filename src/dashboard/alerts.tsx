import type { Context } from "hono";
import { createAlert, listAlerts } from "../books/alerts/alerts.ts";
import { readExpiryNotices, setExpiryNotices } from "../books/alerts/expiry-notices.ts";
import type { AlertOutput } from "../books/alerts/responses.ts";
import { createAlertInput, setExpiryNoticesInput } from "../books/alerts/schemas.ts";
import { UNITS } from "../books/amounts/amount.ts";
import type { PurserError } from "../errors.ts";
import { Empty, RowMenu, Table } from "./components.tsx";
import { Choice, Field, Hidden } from "./fields.tsx";
import {
  catchRefusal,
  createDashboardRoutes,
  type DashboardEnv,
  type Form,
  numberField,
  parseForm,
  textField,
} from "./form.ts";
import { amountText, Time } from "./format.tsx";
import { FormToken, page, pathIn } from "./layout.tsx";
import { randomOf } from "./session.tsx";

const ALERT_NOTICES: Readonly<Record<string, string>> = {
  created: "Alert created.",
  deleted: "Alert deleted. It sends nothing more.",
  days: "Notices saved. They are in force now.",
};

export const MEASURES = [
  ["amount", "the unit"],
  ["percent", "percent of the issued amount"],
] as const;

/** Returns the threshold that the form gives. */
export function belowField(form: Form): Record<string, unknown> {
  const of = form.of === "percent" ? "percent" : "amount";
  const typed = of === "percent" ? { below: (form.below ?? "").replace(/\s*%\s*$/, "") } : form;
  return { [of]: numberField(typed, "below", `below.${of}`) };
}

export const belowOf = ({ below, unit }: AlertOutput) =>
  "amount" in below ? `${amountText(below.amount)} ${unit}` : `${below.percent} % of what was issued in ${unit}`;

async function alertsPage(c: Context<DashboardEnv>, refusal?: PurserError) {
  const { appId, mode } = c.var.ctx.environment;
  const { alerts } = await listAlerts(c.var.root, appId, mode);
  const { days } = await readExpiryNotices(c.var.root, appId, mode);
  const { form } = c.var;
  return page(
    c,
    { title: "Alerts", section: "alerts", refusal, notice: ALERT_NOTICES[c.req.query("notice") ?? ""] },
    <>
      <section class="card">
        <h2>Alerts</h2>
        <p class="soft">
          Send <code>credits.low</code> when a user has less than this (reserved credits count). It is sent again after
          a grant or an adjustment has lifted the user above it. <code>credits.depleted</code> needs no alert.
        </p>
        <Table
          label="Alerts"
          csv="alerts"
          head={["Name", "Below", "Event", "Created", ""]}
          rows={alerts.map((alert) => [
            <a href={pathIn(c, `alerts/${alert.alertId}`)}>{alert.name}</a>,
            belowOf(alert),
            alert.event === null ? <span class="soft">all</span> : <code>{alert.event}</code>,
            <Time at={alert.createdAt} />,
            <RowMenu label={`Actions for ${alert.name}`}>
              <a href={pathIn(c, `alerts/${alert.alertId}`)}>Edit</a>
              <a href={pathIn(c, `alerts/${alert.alertId}#users`)}>Users for whom it fired</a>
              <a href={pathIn(c, `alerts/${alert.alertId}/delete`)}>Delete</a>
            </RowMenu>,
          ])}
          empty={
            <Empty icon="bell" title="No alerts yet">
              Create one below. It sends a message to your webhook endpoints when it fires.
            </Empty>
          }
        />
      </section>
      <form method="post" action={pathIn(c, "alerts")} class="card">
        <h2>New alert</h2>
        <FormToken c={c} />
        <Hidden fields={{ nonce: form.nonce ?? c.var.root.newId("") }} />
        <div class="row">
          <Field label="Name" name="name" value={form.name} refusal={refusal} required />
          <Choice
            label="Unit"
            name="unit"
            value={form.unit}
            options={UNITS.map((unit) => [unit, unit])}
            refusal={refusal}
          />
          <Field label="Event (optional)" name="event" value={form.event} refusal={refusal} placeholder="chat.*" />
        </div>
        <div class="row">
          <Field
            label="Below"
            name="below"
            value={form.below}
            refusal={refusal}
            param={`below.${form.of ?? ""}`}
            required
          />
          <Choice label="Counted in" name="of" value={form.of} options={MEASURES} />
          <button type="submit">Create alert</button>
        </div>
      </form>
      <form method="post" action={pathIn(c, "alerts/notices")} class="card">
        <h2>Notices of expiry</h2>
        <p class="soft">
          Warn this many days before unused credits expire. Sends <code>balance.expiring</code>. Up to ten numbers;
          empty: none. <code>balance.expired</code> needs no setting.
        </p>
        <FormToken c={c} />
        <div class="row">
          <Field
            label="Days before"
            name="days"
            value={form.days ?? days.join(", ")}
            refusal={refusal}
            placeholder="30, 7, 1"
          />
          <button type="submit" class="quiet">
            Save notices
          </button>
        </div>
      </form>
    </>,
  );
}

export const alertsRoutes = createDashboardRoutes()
  .get("/alerts", (c) => alertsPage(c))
  .post("/alerts", async (c) => {
    const { form, admin } = c.var;
    const { appId, mode } = c.var.ctx.environment;
    const done = await catchRefusal(async () => {
      const below = belowField(form);
      const fields = { mode, name: form.name, unit: form.unit, event: textField(form, "event"), below };
      const alertId = `alr_${await randomOf(c, form.nonce ?? admin.newId(""))}`;
      return createAlert(admin, appId, parseForm(createAlertInput, fields), alertId);
    });
    return done.refusal === undefined
      ? c.redirect(pathIn(c, "alerts?notice=created"), 303)
      : alertsPage(c, done.refusal);
  })
  .post("/alerts/notices", async (c) => {
    const { appId, mode } = c.var.ctx.environment;
    const done = await catchRefusal(async () => {
      const texts = (c.var.form.days ?? "").split(/[\s,;]+/).filter((text) => text !== "");
      const days = texts.map((text) => (/^\d{1,15}$/.test(text) ? Number(text) : text));
      return setExpiryNotices(c.var.admin, appId, parseForm(setExpiryNoticesInput, { mode, days }));
    });
    return done.refusal === undefined ? c.redirect(pathIn(c, "alerts?notice=days"), 303) : alertsPage(c, done.refusal);
  });

import type { Context } from "hono";
import { listAlertUsers, presentAlert, requireAlert } from "../books/alerts/alerts.ts";
import { changeAlert, deleteAlert } from "../books/alerts/change.ts";
import type { AlertOutput } from "../books/alerts/responses.ts";
import { changeAlertInput, listAlertUsersInput } from "../books/alerts/schemas.ts";
import { PurserError } from "../errors.ts";
import { belowField, belowOf, MEASURES } from "./alerts.tsx";
import { Empty, Pager, Table } from "./components.tsx";
import { Confirm } from "./confirm.tsx";
import { Choice, Field } from "./fields.tsx";
import { catchRefusal, createDashboardRoutes, type DashboardEnv, parseForm, textField } from "./form.ts";
import { amountText, queryString } from "./format.tsx";
import { FormToken, page, pathIn } from "./layout.tsx";
import { UserLink } from "./people-list.tsx";

const ALERT_PATH = "/alerts/:alertId";
const ALERT_ROWS = "50";

/** Returns the alert in the path. Throws `not_found` for an alert of the other mode. */
async function readAlert(c: Context<DashboardEnv>): Promise<AlertOutput> {
  const { appId, mode } = c.var.ctx.environment;
  const { mode: own, ...row } = await requireAlert(c.var.root, appId, c.req.param("alertId") ?? "");
  if (own !== mode) throw new PurserError("not_found", `There is no such alert in ${mode} mode.`);
  return presentAlert(row, own);
}

async function alertPage(c: Context<DashboardEnv>, alert: AlertOutput, refusal?: PurserError) {
  const { alertId, unit, below } = alert;
  const cursor = textField(c.req.query(), "cursor");
  const input = parseForm(listAlertUsersInput, { limit: ALERT_ROWS, cursor });
  const { users, nextCursor } = await listAlertUsers(c.var.root, c.var.ctx.environment.appId, alertId, input);
  const at = pathIn(c, `alerts/${alertId}`);
  const present = {
    name: alert.name,
    event: alert.event ?? "",
    below: amountText("amount" in below ? below.amount : below.percent),
    of: "amount" in below ? "amount" : "percent",
  };
  const form = { ...present, ...c.var.form };
  const notice = c.req.query("notice") === "changed" ? "Alert changed. It starts again for every user." : undefined;
  const remove = (
    <a class="button quiet danger" href={`${at}/delete`}>
      Delete
    </a>
  );
  return page(
    c,
    { title: alert.name, section: "alerts", refusal, notice, actions: remove },
    <>
      <form method="post" action={at} class="card">
        <h2>Edit</h2>
        <p class="soft">
          Send <code>credits.low</code> when a user has less than {belowOf(alert)} (reserved credits count). A change
          starts again: it may be sent again for users who are already below.
        </p>
        <FormToken c={c} />
        <div class="row">
          <Field label="Name" name="name" value={form.name} refusal={refusal} required />
          <Field
            label={`Below (${unit}, or per cent)`}
            name="below"
            value={form.below}
            refusal={refusal}
            param={`below.${form.of}`}
          />
          <Choice label="Counted in" name="of" value={form.of} options={MEASURES} />
          <Field label="Event (optional)" name="event" value={form.event} refusal={refusal} placeholder="chat.*" />
          <button type="submit">Save alert</button>
        </div>
      </form>
      <section class="card" id="users">
        <h2>Users for whom it fired</h2>
        <p class="soft">And who were not lifted since. Kept while the application has an endpoint that is on.</p>
        <Table
          label="Users for whom it fired"
          head={["User"]}
          csv="alert-users"
          rows={users.map(({ userId }) => [<UserLink c={c} id={userId} />])}
          empty={<Empty icon="users" title="Nobody" />}
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

async function deleteAlertPage(c: Context<DashboardEnv>) {
  const alert = await readAlert(c);
  const { alertId, name } = alert;
  return page(
    c,
    { title: "Delete alert", section: "alerts" },
    <Confirm
      c={c}
      action={`alerts/${alertId}/delete`}
      fields={{}}
      button="Delete alert"
      cancel={`alerts/${alertId}`}
      isDangerous
    >
      <p>
        “{name}” (below {belowOf(alert)}) sends nothing more. This cannot be undone.
      </p>
    </Confirm>,
  );
}

export const alertPages = createDashboardRoutes()
  .get(ALERT_PATH, async (c) => alertPage(c, await readAlert(c)))
  .post(ALERT_PATH, async (c) => {
    const alert = await readAlert(c);
    const { form, admin } = c.var;
    const done = await catchRefusal(async () => {
      const fields = { name: form.name, event: textField(form, "event") ?? null, below: belowField(form) };
      const { appId } = c.var.ctx.environment;
      return changeAlert(admin, appId, alert.alertId, parseForm(changeAlertInput, fields));
    });
    return done.refusal === undefined
      ? c.redirect(pathIn(c, `alerts/${alert.alertId}?notice=changed`), 303)
      : alertPage(c, alert, done.refusal);
  })
  .get(`${ALERT_PATH}/delete`, deleteAlertPage)
  .post(`${ALERT_PATH}/delete`, async (c) => {
    const { alertId } = await readAlert(c);
    await deleteAlert(c.var.admin, c.var.ctx.environment.appId, alertId);
    return c.redirect(pathIn(c, "alerts?notice=deleted"), 303);
  });

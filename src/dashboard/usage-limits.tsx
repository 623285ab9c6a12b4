import type { Context } from "hono";
import { changeLimitInput } from "../api/usage-limits/change-usage-limit.ts";
import { createLimitInput } from "../api/usage-limits/create-usage-limit.ts";
import { UNITS } from "../books/amounts/amount.ts";
import { EVERY } from "../books/ledger/calendar.ts";
import {
  createLimit,
  type LimitOfApp,
  listLimits,
  presentLimit,
  requireLimit,
  type UsageLimitOutput,
} from "../books/limits/limits.ts";
import { changeLimit, deleteLimit } from "../books/limits/update-limit.ts";
import { PurserError } from "../errors.ts";
import { Empty, numberHead, RowMenu, Table } from "./components.tsx";
import { Confirm } from "./confirm.tsx";
import { Choice, Field, Hidden } from "./fields.tsx";
import { catchRejection, createDashboardRoutes, type DashboardEnv, numberField, parseForm, textField } from "./form.ts";
import { amountText, everyText, Time } from "./format.tsx";
import { FormToken, page, pathIn } from "./layout.tsx";
import { readRandom } from "./session.tsx";

const LIMIT_NOTICES: Readonly<Record<string, string>> = {
  created: "Limit created. It counts from now on.",
  changed: "Limit changed. The used amounts stay.",
  deleted: "Limit deleted. It no longer applies.",
};
const USAGE_LIMIT_PATH = "/usage-limits/:limitId";

const Rules = ({ of }: { of: UsageLimitOutput["matches"] }) =>
  of.length === 0 ? (
    <span class="soft">all</span>
  ) : (
    <code>{of.map(({ event = "*", model }) => (model === undefined ? event : `${event} (${model})`)).join(", ")}</code>
  );

async function usageLimitsPage(c: Context<DashboardEnv>, rejection?: PurserError) {
  const { appId, mode } = c.var.ctx.environment;
  const { limits } = await listLimits(c.var.root, appId, mode);
  const { form } = c.var;
  return page(
    c,
    { title: "Usage limits", section: "usage-limits", rejection, notice: LIMIT_NOTICES[c.req.query("notice") ?? ""] },
    <>
      <section class="card">
        <div class="card-head">
          <h2>Usage limits</h2>
          <a href={pathIn(c, "usage-limits/reached")}>Users at a limit</a>
        </div>
        <p class="soft">
          A limit on the usage of each user, or of each member of a team, in a window. It does not depend on credits. At
          most 20.
        </p>
        <Table
          label="Usage limits"
          csv="usage-limits"
          head={["Name", numberHead("Amount"), "Every", "For each", "Events", "Created", ""]}
          rows={limits.map((limit) => [
            <a href={pathIn(c, `usage-limits/${limit.limitId}`)}>{limit.name}</a>,
            `${amountText(limit.amount)} ${limit.unit}`,
            everyText(limit.every, limit.timeZone),
            limit.per,
            <Rules of={limit.matches} />,
            <Time at={limit.createdAt} />,
            <RowMenu label={`Actions for ${limit.name}`}>
              <a href={pathIn(c, `usage-limits/${limit.limitId}`)}>Edit</a>
              <a href={pathIn(c, `usage-limits/${limit.limitId}/delete`)}>Delete</a>
            </RowMenu>,
          ])}
          empty={
            <Empty icon="limits" title="No usage limits yet">
              Create one below, such as 50 messages a day.
            </Empty>
          }
        />
      </section>
      <form method="post" action={pathIn(c, "usage-limits")} class="card">
        <h2>New limit</h2>
        <FormToken c={c} />
        <Hidden fields={{ nonce: form.nonce ?? c.var.root.newId("") }} />
        <div class="row">
          <Field label="Name" name="name" value={form.name} rejection={rejection} required />
          <Field label="Amount" name="amount" value={form.amount} rejection={rejection} required />
          <Choice
            label="Unit"
            name="unit"
            value={form.unit}
            options={UNITS.map((unit) => [unit, unit])}
            rejection={rejection}
          />
          <Choice
            label="Every"
            name="every"
            value={form.every ?? "day"}
            options={EVERY.map((every) => [every, every])}
            rejection={rejection}
          />
          <Choice
            label="For each"
            name="per"
            value={form.per ?? "user"}
            options={[
              ["user", "user"],
              ["member", "member"],
            ]}
            rejection={rejection}
          />
          <Field
            label="Time zone (optional)"
            name="timeZone"
            value={form.timeZone}
            rejection={rejection}
            placeholder="Europe/Berlin"
            hint="empty: UTC"
          />
        </div>
        <div class="row">
          <Field
            label="Event (optional)"
            name="event"
            value={form.event}
            rejection={rejection}
            param="matches[0].event"
            placeholder="chat.*"
          />
          <Field
            label="Model (optional)"
            name="model"
            value={form.model}
            rejection={rejection}
            param="matches[0].model"
            placeholder="large-*"
          />
          <button type="submit">Create limit</button>
        </div>
      </form>
    </>,
  );
}

/** Returns the limit in the path. Throws `not_found` for a limit of the other mode. */
async function limitOfPage(c: Context<DashboardEnv>): Promise<LimitOfApp> {
  const { appId, mode } = c.var.ctx.environment;
  const limit = await requireLimit(c.var.root, appId, c.req.param("limitId") ?? "");
  if (limit.mode !== mode || limit.isDeleted)
    throw new PurserError("not_found", `There is no such limit in ${mode} mode.`);
  return limit;
}

async function readLimit(c: Context<DashboardEnv>): Promise<UsageLimitOutput> {
  const limit = await limitOfPage(c);
  return presentLimit(limit, limit.mode);
}

async function limitPage(c: Context<DashboardEnv>, limit: UsageLimitOutput, rejection?: PurserError) {
  const { limitId, name, unit, every, timeZone } = limit;
  const at = pathIn(c, `usage-limits/${limitId}`);
  const form = { name, amount: amountText(limit.amount), ...c.var.form };
  const deleteLink = (
    <a class="button quiet danger" href={`${at}/delete`}>
      Delete
    </a>
  );
  return page(
    c,
    { title: name, section: "usage-limits", rejection, actions: deleteLink },
    <form method="post" action={at} class="card">
      <h2>Edit</h2>
      <p class="soft">
        Counts <Rules of={limit.matches} /> events in {unit}, every {everyText(every, timeZone)}. A changed amount also
        applies to the usage so far.
      </p>
      <FormToken c={c} />
      <div class="row">
        <Field label="Name" name="name" value={form.name} rejection={rejection} required />
        <Field label={`Amount (${unit})`} name="amount" value={form.amount} rejection={rejection} required />
        <button type="submit">Save limit</button>
      </div>
    </form>,
  );
}

async function deleteLimitPage(c: Context<DashboardEnv>) {
  const { limitId, name } = await readLimit(c);
  return page(
    c,
    { title: "Delete limit", section: "usage-limits" },
    <Confirm
      c={c}
      action={`usage-limits/${limitId}/delete`}
      fields={{}}
      isDangerous
      cancel={`usage-limits/${limitId}`}
      button="Delete limit"
    >
      <p>
        Delete the limit <strong>{name}</strong>? It no longer rejects usage, and the used amounts are deleted.
      </p>
    </Confirm>,
  );
}

export const usageLimitPages = createDashboardRoutes()
  .get("/usage-limits", (c) => usageLimitsPage(c))
  .post("/usage-limits", async (c) => {
    const { appId, mode } = c.var.ctx.environment;
    const { form, admin } = c.var;
    const created = await catchRejection(async () => {
      const rule = { event: textField(form, "event"), model: textField(form, "model") };
      const hasRule = rule.event !== undefined || rule.model !== undefined;
      const { name, unit, every } = form;
      const fields = { mode, name, unit, every, amount: numberField(form, "amount"), matches: hasRule ? [rule] : [] };
      const [per, timeZone] = [textField(form, "per"), textField(form, "timeZone")];
      const limitId = `lim_${await readRandom(c, form.nonce ?? admin.newId(""))}`;
      return createLimit(admin, appId, parseForm(createLimitInput, { ...fields, per, timeZone }), limitId);
    });
    return created.rejection === undefined
      ? c.redirect(`${pathIn(c, "usage-limits")}?notice=created`, 303)
      : usageLimitsPage(c, created.rejection);
  })
  .get(USAGE_LIMIT_PATH, async (c) => limitPage(c, await readLimit(c)))
  .post(USAGE_LIMIT_PATH, async (c) => {
    const limit = await limitOfPage(c);
    const changed = await catchRejection(async () => {
      const input = { name: c.var.form.name, amount: numberField(c.var.form, "amount") };
      return changeLimit(c.var.admin, limit, parseForm(changeLimitInput, input));
    });
    return changed.rejection === undefined
      ? c.redirect(`${pathIn(c, "usage-limits")}?notice=changed`, 303)
      : limitPage(c, presentLimit(limit, limit.mode), changed.rejection);
  })
  .get(`${USAGE_LIMIT_PATH}/delete`, deleteLimitPage)
  .post(`${USAGE_LIMIT_PATH}/delete`, async (c) => {
    await deleteLimit(c.var.admin, await limitOfPage(c));
    return c.redirect(`${pathIn(c, "usage-limits")}?notice=deleted`, 303);
  });

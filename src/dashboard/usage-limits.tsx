import { changeLimitInput } from "../api/usage-limits/change-usage-limit.ts";
import { createLimitInput } from "../api/usage-limits/create-usage-limit.ts";
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
import { AppLink, LinkButton } from "./app-link.tsx";
import { linkColumn, menuColumn, quantityColumn, shownColumn, textColumn, timeColumn } from "./columns.tsx";
import { Empty } from "./components.tsx";
import { askRoutes, confirmPage } from "./confirm.tsx";
import { Choice, Field } from "./fields.tsx";
import { createDashboardRoutes, inPageMode, numberField, type PageContext, parseForm, textField } from "./form.ts";
import { FormCard, onSubmit } from "./form-card.tsx";
import { amountText, everyText } from "./format.tsx";
import { page } from "./layout.tsx";
import { listAgain, listRoutes, type Resource, wholeList } from "./resource.tsx";
import { readRandom } from "./session.tsx";
import { UnitLabel, unitText } from "./unit-amount.tsx";
import { UnitChoice } from "./unit-choice.tsx";

const USAGE_LIMIT_PATH = "/usage-limits/:limitId";

const Rules = ({ of }: { of: UsageLimitOutput["matches"] }) =>
  of.length === 0 ? (
    <span class="soft">all</span>
  ) : (
    <code>{of.map(({ event = "*", model }) => (model === undefined ? event : `${event} (${model})`)).join(", ")}</code>
  );

const limitsList: Resource<UsageLimitOutput> = {
  path: "usage-limits",
  title: "Usage limits",
  section: "usage-limits",
  about: () => (
    <>
      A limit on the usage of each user, or of each member of a team, in a window. It does not depend on credits. At
      most 20. <AppLink to="usage-limits/reached">Users at a limit</AppLink>
    </>
  ),
  columns: [
    linkColumn("name", "Name", ({ limitId }) => `usage-limits/${limitId}`),
    quantityColumn("amount", "Amount", ({ amount, unit }) => [amount, unit]),
    { name: "unit", value: ({ unit }) => unit },
    shownColumn("every", "Every", ({ every, timeZone }) => everyText(every, timeZone)),
    textColumn("per", "For each"),
    { name: "matches", head: "Events", cell: ({ matches }) => <Rules of={matches} /> },
    timeColumn("createdAt", "Created"),
    menuColumn(
      ({ name }) => name,
      ({ limitId }) => [
        [`usage-limits/${limitId}`, "Edit"],
        [`usage-limits/${limitId}/delete`, "Delete"],
      ],
    ),
  ],
  read: wholeList(async ({ var: { root, appId, mode } }) => (await listLimits(root, appId, mode)).limits),
  empty: (
    <Empty icon="limits" title="No usage limits yet">
      Create one below, such as 50 messages a day.
    </Empty>
  ),
  notices: {
    created: "Limit created. It counts from now on.",
    changed: "Limit changed. The used amounts stay.",
    deleted: "Limit deleted. It no longer applies.",
  },
  below: (c, { rejection }) => (
    <FormCard
      action="usage-limits"
      title="New limit"
      form={{ every: "day", per: "user", ...c.var.form }}
      rejection={rejection}
      schema={createLimitInput}
      once
      button="Create limit"
    >
      <Field label="Name" name="name" />
      <Field label="Amount" name="amount" />
      <UnitChoice label="Unit" name="unit" />
      <Choice label="Every" name="every" options={EVERY} />
      <Choice label="For each" name="per" options={["user", "member"]} />
      <Field label="Time zone (optional)" name="timeZone" placeholder="Europe/Berlin" hint="empty: UTC" />
      <Field label="Event (optional)" name="event" param="matches[0].event" placeholder="chat.*" />
      <Field label="Model (optional)" name="model" param="matches[0].model" placeholder="large-*" />
    </FormCard>
  ),
};

/** Returns the limit in the path. Throws `not_found` for a limit of the other mode. */
async function limitInPath(c: PageContext): Promise<LimitOfApp> {
  const { root, appId } = c.var;
  const limit = inPageMode(c, await requireLimit(root, appId, c.req.param("limitId") ?? ""), "limit");
  if (limit.isDeleted) throw new PurserError("not_found", "The limit was deleted.");
  return limit;
}

async function limitPage(c: PageContext, rejection?: PurserError) {
  const row = await limitInPath(c);
  const { limitId, name, unit, amount, matches, every, timeZone } = presentLimit(row, row.mode);
  const at = `usage-limits/${limitId}`;
  const deleteLink = <LinkButton text="Delete" kind="danger" to={`${at}/delete`} />;
  return page(
    c,
    { title: name, section: "usage-limits", rejection, actions: deleteLink },
    <FormCard
      action={at}
      title="Edit"
      about={
        <>
          Counts <Rules of={matches} /> events in <UnitLabel unit={unit} />, every {everyText(every, timeZone)}. A
          changed amount also applies to the usage so far.
        </>
      }
      form={{ name, amount: amountText(amount), ...c.var.form }}
      rejection={rejection}
      schema={createLimitInput}
      button="Save limit"
    >
      <Field label="Name" name="name" />
      <Field label={`Amount (${unitText(c.var.units, unit)})`} name="amount" />
    </FormCard>,
  );
}

async function askDeleteLimit(c: PageContext) {
  const { id, name } = await limitInPath(c);
  return confirmPage(
    c,
    { button: "Delete limit", cancel: `usage-limits/${id}`, isDangerous: true },
    <p>
      Delete the limit <strong>{name}</strong>? It no longer rejects usage, and the used amounts are deleted.
    </p>,
  );
}

export const usageLimitPages = createDashboardRoutes()
  .route("/", listRoutes(limitsList))
  .post(
    "/usage-limits",
    onSubmit(async (c) => {
      const { form, admin, appId, mode } = c.var;
      const rule = { event: textField(form, "event"), model: textField(form, "model") };
      const hasRule = rule.event !== undefined || rule.model !== undefined;
      const { name, unit, every } = form;
      const fields = { mode, name, unit, every, amount: numberField(form, "amount"), matches: hasRule ? [rule] : [] };
      const [per, timeZone] = [textField(form, "per"), textField(form, "timeZone")];
      const limitId = `lim_${await readRandom(c, form.nonce ?? admin.newId(""))}`;
      await createLimit(admin, appId, parseForm(createLimitInput, { ...fields, per, timeZone }), limitId);
      return "usage-limits?notice=created";
    }, listAgain(limitsList)),
  )
  .get(USAGE_LIMIT_PATH, (c) => limitPage(c))
  .post(
    USAGE_LIMIT_PATH,
    onSubmit(
      async (c) => {
        const { form, admin } = c.var;
        const input = parseForm(changeLimitInput, { name: form.name, amount: numberField(form, "amount") });
        await changeLimit(admin, await limitInPath(c), input);
        return "usage-limits?notice=changed";
      },
      (c, _form, rejection) => limitPage(c, rejection),
    ),
  )
  .route(
    "/",
    askRoutes(`${USAGE_LIMIT_PATH}/delete`, askDeleteLimit, async (c) => {
      await deleteLimit(c.var.admin, await limitInPath(c));
      return "usage-limits?notice=deleted";
    }),
  );

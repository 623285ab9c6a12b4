import type { Context } from "hono";
import { cancelRecurring, resumeRecurring } from "../books/recurring/change.ts";
import { createRecurring } from "../books/recurring/create.ts";
import { listRecurring, listSuspended } from "../books/recurring/recurring.ts";
import type { RecurringOutput } from "../books/recurring/responses.ts";
import { cancelRecurringInput, createRecurringInput, everyPeriod } from "../books/recurring/schemas.ts";
import { listPacks } from "../catalog/pack.ts";
import { PurserError } from "../errors.ts";
import { callVerb } from "../http/factory.ts";
import { Empty, Id, Pager, Table, Tag } from "./components.tsx";
import {
  Confirm,
  doubtsOfId,
  formFields,
  redirectAfter,
  requireReason,
  SHOWN_FIELDS_MAX,
  userPath,
} from "./confirm.tsx";
import { Choice, Field, Hidden, LongText } from "./fields.tsx";
import {
  catchRefusal,
  createDashboardRoutes,
  type DashboardEnv,
  type Form,
  numberField,
  parseForm,
  timeField,
} from "./form.ts";
import { amountText, queryString, Time, timeText } from "./format.tsx";
import { FormToken, page, pathIn } from "./layout.tsx";
import { UserLink } from "./people-list.tsx";

const PATH = "users/recurring";

const refers = ({ userId, recurringId }: RecurringOutput) => queryString({ userId, recurringId });

/** The actions on a recurring grant. */
const Actions = ({ c, grant }: { c: Context<DashboardEnv>; grant: RecurringOutput }) => (
  <>
    {grant.status === "suspended" && (
      <form method="post" action={pathIn(c, `${PATH}/resume`)}>
        <FormToken c={c} />
        <Hidden fields={{ userId: grant.userId, recurringId: grant.recurringId }} />
        <button type="submit" class="quiet">
          Resume
        </button>
      </form>
    )}
    {grant.status !== "ended" && (
      <a class="button quiet" href={`${pathIn(c, `${PATH}/cancel`)}${refers(grant)}`}>
        Cancel
      </a>
    )}
  </>
);

/** Shows a user's recurring grants. Nothing where there are none. */
export const RecurringGrants = ({
  c,
  recurring,
}: {
  c: Context<DashboardEnv>;
  recurring: readonly RecurringOutput[];
}) =>
  recurring.length === 0 ? null : (
    <section class="card" id="recurring">
      <h2>Recurring grants</h2>
      <GrantTable c={c} recurring={recurring} />
    </section>
  );

const GrantTable = ({ c, recurring, withUsers = false }: GrantTableProps) => (
  <Table
    label="Recurring grants"
    csv="recurring-grants"
    head={[...(withUsers ? ["User"] : []), "Pack", "Every", "State", "Period that runs", "Next", "Rollover", "Id", ""]}
    empty={<Empty icon="check" title="No recurring grant is suspended" />}
    rows={recurring.map((grant) => [
      ...(withUsers ? [<UserLink c={c} id={grant.userId} />] : []),
      grant.quantity === null ? grant.packName : `${grant.packName}, ${amountText(grant.quantity)}`,
      grant.every,
      <>
        <Tag kind={grant.status}>{grant.status}</Tag> {grant.reason !== null && <code>{grant.reason}</code>}
      </>,
      grant.period === null ? "none" : `${grant.period.n}, until ${timeText(grant.period.to)}`,
      <Time at={grant.nextAt} otherwise="never" />,
      grant.rolloverPeriods === null ? "as the pack says" : `${grant.rolloverPeriods} periods`,
      <Id id={grant.recurringId} />,
      <Actions c={c} grant={grant} />,
    ])}
  />
);

interface GrantTableProps {
  readonly c: Context<DashboardEnv>;
  readonly recurring: readonly RecurringOutput[];
  readonly withUsers?: boolean;
}

const SUSPENDED_ROWS = 50;
/** The page that lists the suspended recurring grants of all users. */
export const suspendedPath = "users/suspended";

async function suspendedPage(c: Context<DashboardEnv>) {
  const after = c.req.query("after") ?? "";
  const found = await listSuspended(c.var.ctx, { after, limit: SUSPENDED_ROWS + 1 });
  const recurring = found.slice(0, SUSPENDED_ROWS);
  const at = pathIn(c, suspendedPath);
  const last = found.length > SUSPENDED_ROWS ? recurring.at(-1)?.recurringId : undefined;
  return page(
    c,
    { title: "Suspended recurring grants", section: "users" },
    <section class="card">
      <p class="soft">They grant nothing until you remove the reason and resume them.</p>
      <GrantTable c={c} recurring={recurring} withUsers />
      <Pager
        first={after === "" ? null : at}
        next={last === undefined ? null : `${at}${queryString({ after: last })}`}
        words={["First grants", "More grants"]}
      />
    </section>,
  );
}

async function newPage(c: Context<DashboardEnv>, form: Form, refusal?: PurserError) {
  const { root, ctx } = c.var;
  const { packs } = await listPacks(root, ctx.environment.appId, SHOWN_FIELDS_MAX);
  const offered = packs.filter((pack) => pack.archivedAt === null);
  return page(
    c,
    { title: "New recurring grant", section: "users", refusal },
    <form method="get" action={pathIn(c, `${PATH}/confirm`)} class="card">
      {/* The same confirmation, submitted again, makes no second one. */}
      <Hidden fields={{ recurringId: form.recurringId ?? root.newId("rec_") }} />
      <div class="row">
        <Field label="User id" name="userId" value={form.userId} required refusal={refusal} />
        <Choice
          label="Pack"
          name="packId"
          value={form.packId}
          options={offered.map((pack) => [pack.packId, pack.packName])}
          refusal={refusal}
        />
        <Field
          label="Quantity"
          name="quantity"
          value={form.quantity}
          hint="only for packs without items"
          refusal={refusal}
        />
        <Choice
          label="Every"
          name="every"
          value={form.every ?? "month"}
          options={everyPeriod.unwrap().options.map((each) => [each, each])}
          refusal={refusal}
        />
      </div>
      <div class="row">
        <Field
          label="First period (UTC)"
          name="startsAt"
          type="datetime-local"
          value={form.startsAt}
          hint="empty: now"
          refusal={refusal}
        />
        <Field
          label="No period from (UTC)"
          name="endsAt"
          type="datetime-local"
          value={form.endsAt}
          hint="empty: no end"
          refusal={refusal}
        />
        <Field
          label="Further periods that credits live"
          name="rolloverPeriods"
          value={form.rolloverPeriods ?? "0"}
          hint="empty: they expire as the pack says"
          refusal={refusal}
        />
      </div>
      <p>
        <button type="submit">Continue</button>
      </p>
    </form>,
  );
}

function readNew(form: Form) {
  return parseForm(createRecurringInput, {
    recurringId: form.recurringId,
    userId: form.userId,
    packId: form.packId,
    quantity: numberField(form, "quantity"),
    every: form.every,
    startsAt: timeField(form, "startsAt"),
    endsAt: timeField(form, "endsAt"),
    rolloverPeriods: numberField(form, "rolloverPeriods") ?? null,
  });
}

async function confirmNew(c: Context<DashboardEnv>, form: Form, refused?: PurserError) {
  const read = await catchRefusal(async () => {
    const input = readNew(form);
    return { input, doubts: await doubtsOfId(c.var.ctx, input.userId) };
  });
  if (read.result === undefined) return newPage(c, form, read.refusal);
  const { input, doubts } = read.result;
  const { packs } = await listPacks(c.var.root, c.var.ctx.environment.appId, SHOWN_FIELDS_MAX);
  return page(
    c,
    { title: "Confirm recurring grant", section: "users", refusal: refused },
    <Confirm
      c={c}
      action={PATH}
      fields={formFields(form)}
      button="Make recurring grant"
      cancel={userPath(form.userId)}
      change={`${PATH}${queryString(formFields(form))}`}
      doubts={doubts}
    >
      <dl class="facts">
        <dt>User</dt>
        <dd>{input.userId}</dd>
        <dt>Pack</dt>
        <dd>{packs.find(({ packId }) => packId === input.packId)?.packName ?? input.packId}</dd>
        <dt>Granted</dt>
        <dd>
          every {input.every}, from {form.startsAt ? `${form.startsAt} UTC` : "now"}
          {form.endsAt ? `, none from ${form.endsAt} UTC` : ""}
        </dd>
      </dl>
      <p>What is due by now is granted at once.</p>
    </Confirm>,
  );
}

async function cancelPage(c: Context<DashboardEnv>, form: Form, refusal?: PurserError) {
  const { userId = "", recurringId = "" } = form;
  const { recurring } = await listRecurring(c.var.ctx, { userId });
  const grant = recurring.find((each) => each.recurringId === recurringId);
  if (grant === undefined) throw new PurserError("not_found", "This user has no such recurring grant.");
  return page(
    c,
    { title: "Cancel recurring grant", section: "users", refusal },
    <Confirm
      c={c}
      action={`${PATH}/cancel`}
      fields={{ userId, recurringId }}
      button="Cancel recurring grant"
      cancel={userPath(userId)}
      isDangerous
    >
      <dl class="facts">
        <dt>User</dt>
        <dd>{userId}</dd>
        <dt>Recurring grant</dt>
        <dd>
          {grant.packName}, every {grant.every} <code>{recurringId}</code>
        </dd>
      </dl>
      <Choice
        label="When"
        name="at"
        value={form.at}
        options={[
          ["period_end", "At the end of the current period: granted credits stay"],
          ["now", "Now: granted credits that have not expired are revoked"],
        ]}
        refusal={refusal}
      />
      <LongText
        label="Reason (recorded in the ledger of the revoked balances)"
        name="reason"
        value={form.reason}
        required
        refusal={refusal}
      />
    </Confirm>,
  );
}

export const recurringPages = createDashboardRoutes()
  .get(`/${suspendedPath}`, suspendedPage)
  .get(`/${PATH}`, (c) => newPage(c, c.req.query()))
  .get(`/${PATH}/confirm`, (c) => confirmNew(c, c.req.query()))
  .post(`/${PATH}`, (c) =>
    redirectAfter(
      c,
      async () => {
        await callVerb(c, (ctx) => createRecurring(ctx, readNew(c.var.form)));
        return "recurring";
      },
      (refusal) => (refusal.param === "sure" ? confirmNew : newPage)(c, c.var.form, refusal),
    ),
  )
  .get(`/${PATH}/cancel`, (c) => cancelPage(c, c.req.query()))
  .post(`/${PATH}/cancel`, (c) =>
    redirectAfter(
      c,
      async () => {
        const { form } = c.var;
        const input = parseForm(cancelRecurringInput, { at: form.at, reason: requireReason(form, "reason") });
        await callVerb(c, (ctx) => cancelRecurring(ctx, form.recurringId ?? "", input));
        return "recurring-cancelled";
      },
      (refusal) => cancelPage(c, c.var.form, refusal),
    ),
  )
  .post(`/${PATH}/resume`, (c) =>
    redirectAfter(
      c,
      async () => {
        await callVerb(c, (ctx) => resumeRecurring(ctx, c.var.form.recurringId ?? ""));
        return "recurring-resumed";
      },
      (refusal) =>
        page(
          c,
          { title: "Resume recurring grant", section: "users", refusal },
          <p class="card">
            <a href={pathIn(c, userPath(c.var.form.userId))}>Back to the user</a>
          </p>,
        ),
    ),
  );

import type { Context } from "hono";
import { cancelRecurringInput } from "../api/recurring/cancel-recurring-grant.ts";
import { cancelRecurring, resumeRecurring } from "../books/recurring/cancel-recurring.ts";
import { listRecurring, listSuspended, type RecurringOutput } from "../books/recurring/recurring.ts";
import { PurserError } from "../errors.ts";
import { callVerb } from "../http/factory.ts";
import { Empty, Id, Pager, Table, Tag } from "./components.tsx";
import { Confirm, redirectAfter, requireReason } from "./confirm.tsx";
import { Choice, Hidden, LongText } from "./fields.tsx";
import { createDashboardRoutes, type DashboardEnv, type Form, parseForm } from "./form.ts";
import { amountText, everyText, queryString, Time, timeText } from "./format.tsx";
import { FormToken, page, pathIn } from "./layout.tsx";
import { RECURRING_PATH, suspendedPath, UserLink, userPath } from "./links.tsx";

const refers = ({ userId, recurringId }: RecurringOutput) => queryString({ userId, recurringId });

/** The actions on a recurring grant. */
const Actions = ({ c, grant }: { c: Context<DashboardEnv>; grant: RecurringOutput }) => (
  <>
    {grant.status === "suspended" && (
      <form method="post" action={pathIn(c, `${RECURRING_PATH}/resume`)}>
        <FormToken c={c} />
        <Hidden fields={{ userId: grant.userId, recurringId: grant.recurringId }} />
        <button type="submit" class="quiet">
          Resume
        </button>
      </form>
    )}
    {grant.status !== "ended" && (
      <a class="button quiet" href={`${pathIn(c, `${RECURRING_PATH}/cancel`)}${refers(grant)}`}>
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
    head={[...(withUsers ? ["User"] : []), "Pack", "Every", "State", "Current period", "Next", "Rollover", "Id", ""]}
    empty={<Empty icon="check" title="No recurring grant is suspended" />}
    rows={recurring.map((grant) => [
      ...(withUsers ? [<UserLink c={c} id={grant.userId} />] : []),
      grant.quantity === null ? grant.packName : `${grant.packName}, ${amountText(grant.quantity)}`,
      everyText(grant.every, grant.timeZone),
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
      <p class="soft">They grant nothing until you fix the cause and resume them.</p>
      <GrantTable c={c} recurring={recurring} withUsers />
      <Pager
        first={after === "" ? null : at}
        next={last === undefined ? null : `${at}${queryString({ after: last })}`}
        words={["First grants", "More grants"]}
      />
    </section>,
  );
}

async function cancelPage(c: Context<DashboardEnv>, form: Form, rejection?: PurserError) {
  const { userId = "", recurringId = "" } = form;
  const { recurring } = await listRecurring(c.var.ctx, { userId });
  const grant = recurring.find((each) => each.recurringId === recurringId);
  if (grant === undefined) throw new PurserError("not_found", "This user has no such recurring grant.");
  return page(
    c,
    { title: "Cancel recurring grant", section: "users", rejection },
    <Confirm
      c={c}
      action={`${RECURRING_PATH}/cancel`}
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
          {grant.packName}, every {everyText(grant.every, grant.timeZone)} <code>{recurringId}</code>
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
        rejection={rejection}
      />
      <LongText
        label="Reason (recorded in the ledger of the revoked balances)"
        name="reason"
        value={form.reason}
        required
        rejection={rejection}
      />
    </Confirm>,
  );
}

export const recurringPages = createDashboardRoutes()
  .get(`/${suspendedPath}`, suspendedPage)
  .get(`/${RECURRING_PATH}/cancel`, (c) => cancelPage(c, c.req.query()))
  .post(`/${RECURRING_PATH}/cancel`, (c) =>
    redirectAfter(
      c,
      async () => {
        const { form } = c.var;
        const input = parseForm(cancelRecurringInput, { at: form.at, reason: requireReason(form, "reason") });
        await callVerb(c, (ctx) => cancelRecurring(ctx, form.recurringId ?? "", input));
        return "recurring-cancelled";
      },
      (rejection) => cancelPage(c, c.var.form, rejection),
    ),
  )
  .post(`/${RECURRING_PATH}/resume`, (c) =>
    redirectAfter(
      c,
      async () => {
        await callVerb(c, (ctx) => resumeRecurring(ctx, c.var.form.recurringId ?? ""));
        return "recurring-resumed";
      },
      (rejection) =>
        page(
          c,
          { title: "Resume recurring grant", section: "users", rejection },
          <p class="card">
            <a href={pathIn(c, userPath(c.var.form.userId))}>Back to the user</a>
          </p>,
        ),
    ),
  );

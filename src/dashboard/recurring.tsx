import { cancelRecurringInput } from "../api/recurring/cancel-recurring-grant.ts";
import { cancelRecurring, previewCancel, resumeRecurring } from "../books/recurring/cancel-recurring.ts";
import { listRecurring, type RecurringOutput } from "../books/recurring/recurring.ts";
import { PurserError } from "../errors.ts";
import { callVerb } from "../http/factory.ts";
import { LinkButton } from "./app-link.tsx";
import { customColumn, fieldColumn } from "./columns.tsx";
import { Card, Id, SubmitButton, Tag } from "./components.tsx";
import { askRoutes, backToUser, confirmPage, requireReason } from "./confirm.tsx";
import { Choice, LongText } from "./fields.tsx";
import { type Form, type PageContext, parseForm } from "./form.ts";
import { AppForm, onSubmit } from "./form-card.tsx";
import { amountText, everyText, Time, timeText } from "./format.tsx";
import { RECURRING_PATH, toUser, UserLink, userPath } from "./links.tsx";
import { RowsTable } from "./list.tsx";
import type { ListColumn } from "./read-list.ts";
import { BeforeAfter } from "./unit-amount.tsx";

/** The actions on a recurring grant. */
const Actions = ({ grant }: { grant: RecurringOutput }) => (
  <>
    {grant.status === "suspended" && (
      <AppForm action={`${RECURRING_PATH}/resume`} fields={{ userId: grant.userId, recurringId: grant.recurringId }}>
        <SubmitButton text="Resume" kind="quiet" />
      </AppForm>
    )}
    {grant.status !== "ended" && (
      <LinkButton
        text="Cancel"
        to={`${RECURRING_PATH}/cancel`}
        fields={{ userId: grant.userId, recurringId: grant.recurringId }}
      />
    )}
  </>
);

/** Shows a user's recurring grants. Nothing where there are none. */
export const RecurringGrants = ({ recurring }: { recurring: readonly RecurringOutput[] }) =>
  recurring.length === 0 ? null : (
    <Card title="Recurring grants" id="recurring">
      <RowsTable label="Recurring grants" csv="recurring-grants" columns={GRANT_COLUMNS} rows={recurring} empty="" />
    </Card>
  );

type RecurringColumn = ListColumn<RecurringOutput>;

/** The columns of a recurring grant, without its user. */
const GRANT_COLUMNS: readonly RecurringColumn[] = [
  customColumn(
    "pack",
    "Pack",
    ({ packName, quantity }) => (quantity === null ? packName : `${packName}, ${amountText(quantity)}`),
    ({ packName }) => packName,
  ),
  fieldColumn("every", "Every", ({ every, timeZone }) => everyText(every, timeZone)),
  customColumn(
    "state",
    "State",
    ({ status, reason }) => (
      <>
        <Tag kind={status}>{status}</Tag> {reason !== null && <code>{reason}</code>}
      </>
    ),
    ({ status }) => status,
  ),
  customColumn(
    "period",
    "Current period",
    ({ period }) => (period === null ? "none" : `${period.n}, until ${timeText(period.to)}`),
    ({ period }) => period?.n ?? null,
  ),
  fieldColumn("nextAt", "Next", ({ nextAt }) => <Time at={nextAt} otherwise="never" />),
  customColumn(
    "rollover",
    "Rollover",
    ({ rolloverPeriods }) =>
      rolloverPeriods === null
        ? "as the pack says"
        : `${rolloverPeriods} ${rolloverPeriods === 1 ? "period" : "periods"}`,
    ({ rolloverPeriods }) => rolloverPeriods,
  ),
  fieldColumn("recurringId", "Id", ({ recurringId }) => <Id id={recurringId} />),
  { name: "actions", head: "", cell: (grant) => <Actions grant={grant} /> },
];

export const RECURRING_COLUMNS: readonly RecurringColumn[] = [
  fieldColumn("userId", "User", ({ userId }) => <UserLink id={userId} />),
  ...GRANT_COLUMNS,
];

async function cancelPage(c: PageContext, form: Form, rejection?: PurserError) {
  const { userId = "", recurringId = "" } = form;
  const [{ recurring }, revoked] = await Promise.all([
    listRecurring(c.var.ctx, { userId }),
    previewCancel(c.var.ctx, recurringId),
  ]);
  const grant = recurring.find((each) => each.recurringId === recurringId);
  if (grant === undefined) throw new PurserError("not_found", "This user has no such recurring grant.");
  return confirmPage(
    c,
    {
      fields: { userId, recurringId },
      button: "Cancel recurring grant",
      cancel: userPath(userId),
      isDangerous: true,
      form,
      rejection,
      facts: [
        ["User", userId],
        [
          "Recurring grant",
          <>
            {grant.packName}, every {everyText(grant.every, grant.timeZone)} <code>{recurringId}</code>
          </>,
        ],
        [
          "Its credits afterwards, if now",
          revoked.length === 0
            ? "nothing to revoke"
            : revoked.map(({ unit, amount }) => (
                <div>
                  <BeforeAfter from={amount} to={0} unit={unit} />
                </div>
              )),
        ],
      ],
    },
    <>
      <Choice
        label="When"
        name="at"
        options={[
          ["period_end", "At the end of the current period: granted credits stay"],
          ["now", "Now: granted credits that have not expired are revoked"],
        ]}
      />
      <LongText label="Reason (needed to revoke; kept in the ledger of the revoked balances)" name="reason" />
    </>,
  );
}

async function cancel(c: PageContext) {
  const { form } = c.var;
  const input = parseForm(cancelRecurringInput, {
    at: form.at,
    // Only a balance that is revoked has a ledger entry that keeps the reason.
    ...(form.at === "now" ? { reason: requireReason(form, "reason") } : {}),
  });
  await callVerb(c, (ctx) => cancelRecurring(ctx, form.recurringId ?? "", input));
  return toUser(form, "recurring-cancelled");
}

async function resume(c: PageContext) {
  await callVerb(c, (ctx) => resumeRecurring(ctx, c.var.form.recurringId ?? ""));
  return toUser(c.var.form, "recurring-resumed");
}

export const recurringPages = askRoutes(`/${RECURRING_PATH}/cancel`, cancelPage, cancel).post(
  `/${RECURRING_PATH}/resume`,
  onSubmit(resume, backToUser("Resume recurring grant")),
);

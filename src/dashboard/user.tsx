import { planInput } from "../api/credits/preview-debit.ts";
import type { readUserTotals } from "../books/credits/read-balance.ts";
import { isKnownUser } from "../books/credits/users.ts";
import { type PlanOutput, planUsage } from "../books/usage/plan.ts";
import { invalid, type PurserError } from "../errors.ts";
import { AppLink, LinkButton } from "./app-link.tsx";
import { RowMenu, SubmitButton, type Tab, Tabs } from "./components.tsx";
import { Field } from "./fields.tsx";
import {
  catchRejection,
  createDashboardRoutes,
  type Form,
  numberField,
  type PageContext,
  parseForm,
  textField,
  useRequest,
} from "./form.ts";
import { AppForm, onSubmit } from "./form-card.tsx";
import { amountText, queryString } from "./format.tsx";
import type { Identity } from "./identities.ts";
import { page } from "./layout.tsx";
import { IdentityText } from "./links.tsx";
import { readUser, SHOWN_HOLDS_MAX, USAGE_DAYS } from "./read-user.ts";
import { RecurringGrants } from "./recurring.tsx";
import { listHandlers } from "./resource.tsx";
import { Timeline } from "./timeline.tsx";
import { useUnits } from "./unit-amount.tsx";
import { Balances, ByModel, Holds, Totals } from "./user-balances.tsx";
import { ledgerList } from "./user-ledger.tsx";
import { actOnOverride, OVERRIDE_PATH, UserLimits } from "./user-limits.tsx";
import { Memberships } from "./user-memberships.tsx";
import { UserNotes } from "./user-notes.tsx";
import { Plan } from "./user-plan.tsx";

/** Shows the search for users, and for other objects by their id. */
const FindUser = ({ value }: { value?: string | undefined }) => (
  <AppForm method="get" action="users" class="row">
    <Field label="User id" name="q" value={value} />
    <SubmitButton text="Search" />
    <p class="soft wide">
      A user id or a reference, or its beginning. Or the id of a balance, a reservation, an event or a payment.
    </p>
  </AppForm>
);

const USER_NOTICES: Readonly<Record<string, string>> = {
  granted: "Credits granted. See the ledger.",
  "granted-before": "These credits were granted before. Nothing was granted again.",
  adjusted: "Balance adjusted. See the ledger.",
  "adjusted-before": "This adjustment was made before. Nothing was changed again.",
  revoked: "Balance revoked. See the ledger.",
  refunded: "Order refunded. See the ledger.",
  "refunded-before": "This refund was made before. Nothing was taken again.",
  "grant-revoked": "All balances of the grant revoked. See the ledger.",
  "limit-set": "The limit's amount of this user is set. It applies now.",
  "limit-lifted": "The override is lifted. The limit's amount applies.",
  released: "Reservation released. The user can spend the held credits again.",
  recurring: "Recurring grant created. Its due periods are granted.",
  "recurring-cancelled": "Recurring grant cancelled.",
  "recurring-resumed": "Recurring grant resumed.",
  "note-added": "Note added.",
  "note-deleted": "Note deleted.",
};

/** Returns the event of the form, in the form of the API. */
function userEventFields(form: Form): unknown {
  const quantities = Object.fromEntries(
    (["count", "tokens", "seconds", "cents"] as const)
      .map((unit) => [unit, numberField(form, unit)] as const)
      .filter(([, value]) => value !== undefined),
  );
  return { userId: form.userId, event: form.event, model: textField(form, "model"), quantities };
}

function tooManyToPlan(balances: number): PurserError {
  const why = `cannot be previewed here: the user has ${amountText(balances)} balances or more. POST /api/v1/credits/plan does it`;
  return invalid("event", why);
}

/** Shows all of one user's credits, after a rejected override with the rejection. */
export async function userPage(c: PageContext, rejectedOverride?: PurserError) {
  const form = c.req.query();
  const { userId = "" } = form;
  const found = await catchRejection(() => readUser(c, form));
  if (found.result === undefined) {
    return page(c, { title: "Users", section: "users", rejection: found.rejection }, <FindUser value={userId} />);
  }
  const user = found.result;
  const { list, totals, reservations, ledger, memberships } = user;
  const answer =
    textField(form, "event") === undefined
      ? undefined
      : await catchRejection(async (): Promise<PlanOutput> => {
          // A plan reads every balance that can pay.
          if (totals.isPartial) throw tooManyToPlan(totals.balances);
          return planUsage(c.var.ctx, parseForm(planInput, userEventFields(form)));
        });
  const hasNothing = [list.balances, ledger.list.rows, memberships, user.notes].every(({ length }) => length === 0);
  if (hasNothing && !(await isKnownUser(c.var.ctx, userId))) {
    return page(c, { title: "Users", section: "users" }, <Unknown userId={userId} />);
  }
  const tabs: readonly Tab[] = [
    {
      id: "credits",
      name: "Credits",
      children: (
        <>
          <Totals list={list} totals={totals} forecasts={user.forecasts} />
          <Balances userId={userId} list={list} />
          {reservations.length > 0 && (
            <Holds reservations={reservations} isAll={reservations.length < SHOWN_HOLDS_MAX} />
          )}
          <RecurringGrants recurring={user.recurring} />
        </>
      ),
    },
    {
      id: "usage",
      name: "Usage and limits",
      children: (
        <>
          <ByModel usage={user.usage} />
          <UserLimits userId={userId} limits={user.limits} rejection={rejectedOverride} />
          <Memberships memberships={memberships} days={USAGE_DAYS} />
          <Plan form={form} list={list} plan={answer?.result} rejection={answer?.rejection} />
        </>
      ),
    },
    {
      id: "events",
      name: "Timeline",
      children: <Timeline userId={userId} page={user.timeline} balances={list.balances} />,
    },
    {
      id: "entries",
      name: "Ledger",
      children: ledger.card,
    },
    {
      id: "notes",
      name: user.notes.length === 0 ? "Notes" : `Notes (${user.notes.length})`,
      children: <UserNotes userId={userId} notes={user.notes} />,
    },
  ];
  return page(
    c,
    {
      title: `User ${userId}`,
      section: "users",
      notice: USER_NOTICES[form.notice ?? ""],
      rejection: rejectedOverride ?? answer?.rejection,
      actions: <UserActions userId={userId} />,
    },
    <>
      <UserHeader identity={user.identity} totals={totals} />
      <Tabs label="Parts of this page" tabs={tabs} />
    </>,
  );
}

interface HeaderProps {
  readonly identity: Identity | null;
  readonly totals: Awaited<ReturnType<typeof readUserTotals>>;
}

/** Shows who the user is, where the person's properties say so, and what can be spent now. */
const UserHeader = ({ identity, totals }: HeaderProps) => {
  const inUnit = useUnits();
  return (
    <p class="user-head">
      <IdentityText identity={identity} />
      <span class="num">
        {totals.units.length === 0
          ? "Nothing to spend"
          : totals.units.map(({ unit, remaining }) => inUnit(unit, remaining)).join(" · ")}
      </span>
    </p>
  );
};

/** Shows that no user has this id. The id may be mistyped or belong to the other mode. */
const Unknown = ({ userId }: { userId: string }) => {
  const { appId, mode } = useRequest().var.ctx.environment;
  const other = mode === "live" ? "test" : "live";
  const trimmed = userId.trim();
  return (
    <>
      <FindUser value={userId} />
      <div class="card">
        <p>
          No user has this id in {mode} mode: <code>{userId}</code>. Ids are compared exactly.{" "}
          <a href={`/admin/apps/${appId}/${other}/users${queryString({ userId })}`}>Look in {other} mode</a>
          {trimmed !== userId && trimmed !== "" && (
            <>
              , or{" "}
              <AppLink to="users" fields={{ userId: trimmed }}>
                without the spaces around it
              </AppLink>
            </>
          )}
          .
        </p>
        <p class="row">
          <LinkButton text="Grant to a new user?" to="users/grant" fields={{ userId }} />
          <LinkButton text="Look for a person" to="people" fields={{ distinctId: userId }} />
        </p>
      </div>
    </>
  );
};

/** Shows the main action, and the others in a menu. */
const UserActions = ({ userId }: { userId: string }) => {
  const links = [
    ["users/recurring", "Grant every period", { userId }],
    ["users/refund", "Refund an order", { userId }],
    ["people", "View person", { distinctId: userId }],
    ["users/members", "Members", { userId }],
    ["users/as-of", "As of a moment", { userId }],
    ["users/verify", "Verify the ledger", { userId }],
  ] as const;
  return (
    <>
      <LinkButton text="Grant credits" kind="main" to="users/grant" fields={{ userId }} />
      <RowMenu label="More actions">
        {links.map(([place, name, fields]) => (
          <AppLink to={place} fields={fields}>
            {name}
          </AppLink>
        ))}
      </RowMenu>
    </>
  );
};

export const userRoutes = createDashboardRoutes()
  .get("/users/ledger.csv", listHandlers(ledgerList([])).csv)
  .post(
    `/${OVERRIDE_PATH}`,
    onSubmit(actOnOverride, (c, _form, rejection) => userPage(c, rejection)),
  );

import type { Context } from "hono";
import { ledgerPage, ledgerPageOfReason } from "../credits/history.ts";
import { type BalanceList, listAllBalances } from "../credits/list-all.ts";
import { historyInput } from "../credits/schemas.ts";
import type { PurserError } from "../errors.ts";
import { ledgerReason } from "../ledger/schemas.ts";
import { planUsage } from "../usage/plan.ts";
import { describeEvents } from "../usage/read-event.ts";
import type { PlanOutput } from "../usage/responses.ts";
import { planInput } from "../usage/schemas.ts";
import { Field } from "./components.tsx";
import { createDashboardRoutes, type DashboardEnv } from "./env.ts";
import { catchRefusal, type Form, numberField, parseForm, textField } from "./form.ts";
import { query } from "./format.ts";
import { page, pathIn } from "./layout.tsx";
import { ledgerCsv } from "./ledger-csv.ts";
import { Balances } from "./user-balances.tsx";
import { Ledger } from "./user-ledger.tsx";
import { Plan } from "./user-plan.tsx";

const BALANCES_MAX = 100;
const LEDGER_ROWS = 50;
const CHART_ROWS = 200;

const NOTICES: Readonly<Record<string, string>> = {
  granted: "Credits granted. See the ledger below.",
  "granted-before": "These credits were granted before. Nothing was granted again.",
  adjusted: "Balance adjusted. See the ledger below.",
  "adjusted-before": "This adjustment was made before. Nothing was changed again.",
  revoked: "Balance revoked. See the ledger below.",
  released: "Reservation released. What it held can be spent again.",
};

const FindUser = ({ c, userId }: { c: Context<DashboardEnv>; userId?: string | undefined }) => (
  <form method="get" action={pathIn(c, "users")} class="card row">
    <Field label="User id" name="userId" value={userId} required placeholder="Your user id" />
    <button type="submit">Search</button>
    {userId !== undefined && (
      <>
        <a class="button quiet" href={`${pathIn(c, "users/grant")}${query({ userId })}`}>
          Grant credits
        </a>
        <a class="button quiet" href={`${pathIn(c, "people")}${query({ distinctId: userId })}`}>
          View person
        </a>
      </>
    )}
  </form>
);

/** The event of the form, in the form of the API. */
function eventFields(form: Form): unknown {
  const quantities = Object.fromEntries(
    (["count", "tokens", "seconds", "cents"] as const)
      .map((unit) => [unit, numberField(form, unit)] as const)
      .filter(([, value]) => value !== undefined),
  );
  return { userId: form.userId, event: form.event, model: textField(form, "model"), quantities };
}

async function usersPage(c: Context<DashboardEnv>) {
  const form = c.req.query();
  const userId = textField(form, "userId");
  if (userId === undefined) return page(c, { title: "Users", section: "users" }, <FindUser c={c} />);
  const found = await catchRefusal(async () => {
    const input = parseForm(historyInput, {
      userId,
      limit: `${LEDGER_ROWS}`,
      balanceId: textField(form, "balanceId"),
      cursor: textField(form, "cursor"),
    });
    const list = await listAllBalances(c.var.ctx, input.userId, BALANCES_MAX);
    const reason = textField(form, "reason");
    const ledger =
      reason === undefined
        ? await ledgerPage(c.var.ctx, input)
        : await ledgerPageOfReason(c.var.ctx, input, parseForm(ledgerReason, reason));
    const eventIds = ledger.rows.flatMap(({ eventId }) => (eventId === null ? [] : [eventId]));
    return {
      list,
      ledger,
      events: await describeEvents(c.var.ctx, eventIds),
      chart: await recentEntries(c, input.userId, form, list),
    };
  });
  if (found.result === undefined) return notFound(c, userId, found.refusal);
  const answer =
    textField(form, "event") === undefined
      ? undefined
      : await catchRefusal(
          async (): Promise<PlanOutput> => planUsage(c.var.ctx, parseForm(planInput, eventFields(form))),
        );
  const { list, ledger, events, chart } = found.result;
  return page(
    c,
    {
      title: `User ${userId}`,
      section: "users",
      notice: NOTICES[form.notice ?? ""],
      refusal: answer?.refusal,
    },
    <>
      <FindUser c={c} userId={userId} />
      <Balances c={c} userId={userId} list={list} />
      <Plan c={c} form={form} list={list} plan={answer?.result} />
      <Ledger c={c} form={form} balances={list.balances} page={ledger} events={events} chart={chart} />
    </>,
  );
}

const notFound = (c: Context<DashboardEnv>, userId: string, refusal: PurserError) =>
  page(c, { title: "Users", section: "users", refusal }, <FindUser c={c} userId={userId} />);

/** The newest entries of the selected balance, or of the first in spending order. */
async function recentEntries(c: Context<DashboardEnv>, userId: string, form: Form, list: BalanceList) {
  const balance = list.balances.find((each) => each.balanceId === form.balanceId) ?? list.balances[0];
  if (balance === undefined) return null;
  const { rows } = await ledgerPage(c.var.ctx, { userId, balanceId: balance.balanceId, limit: CHART_ROWS });
  return { balance, rows };
}

export const usersRoutes = () =>
  createDashboardRoutes()
    .get("/users", usersPage)
    .get("/users/ledger.csv", (c) => {
      const form = c.req.query();
      const { userId, balanceId } = parseForm(historyInput, {
        userId: form.userId,
        balanceId: textField(form, "balanceId"),
      });
      const input = balanceId === undefined ? { userId } : { userId, balanceId };
      return c.body(ledgerCsv(c.var.ctx, input, textField(form, "reason")), 200, {
        "content-type": "text/csv; charset=utf-8",
        "content-disposition": 'attachment; filename="ledger.csv"',
      });
    });

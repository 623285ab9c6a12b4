import type { Context } from "hono";
import { ledgerPage, ledgerPageOfReason } from "../credits/history.ts";
import { type Holdings, holdings } from "../credits/holdings.ts";
import { historyInput } from "../credits/schemas.ts";
import type { PurserError } from "../errors.ts";
import { ledgerReason } from "../ledger/schemas.ts";
import type { PlanOutput } from "../usage/answers.ts";
import { plan } from "../usage/plan.ts";
import { planInput } from "../usage/schemas.ts";
import { Field } from "./components.tsx";
import { createDashboardRoutes, type DashboardEnv } from "./env.ts";
import { attempt, type Form, filled, numeric, parse } from "./form.ts";
import { query } from "./format.ts";
import { page, pathIn } from "./layout.tsx";
import { ledgerCsv } from "./ledger-csv.ts";
import { Balances } from "./user-balances.tsx";
import { Ledger } from "./user-ledger.tsx";
import { Plan } from "./user-plan.tsx";

const BALANCES_MAX = 100;
const LEDGER_ROWS = 50;
const COURSE_ROWS = 200;

const TOLD: Readonly<Record<string, string>> = {
  granted: "Granted. The ledger below tells it.",
  adjusted: "Adjusted. The ledger below tells it.",
  revoked: "Revoked. The ledger below tells it.",
};

const FindUser = ({ c, userId }: { c: Context<DashboardEnv>; userId?: string | undefined }) => (
  <form method="get" action={pathIn(c, "users")} class="card row">
    <Field label="User id" name="userId" value={userId} required placeholder="Your own id of the user" />
    <button type="submit">Find</button>
    {userId !== undefined && (
      <>
        <a class="button quiet" href={`${pathIn(c, "users/grant")}${query({ userId })}`}>
          Grant credits
        </a>
        <a class="button quiet" href={`${pathIn(c, "people")}${query({ distinctId: userId })}`}>
          As a person
        </a>
      </>
    )}
  </form>
);

/** The event that is asked about, as the API takes it. */
function planned(form: Form): unknown {
  const quantities = Object.fromEntries(
    (["count", "tokens", "seconds", "cents"] as const)
      .map((unit) => [unit, numeric(form, unit)] as const)
      .filter(([, value]) => value !== undefined),
  );
  return { userId: form.userId, event: form.event, model: filled(form, "model"), quantities };
}

async function usersPage(c: Context<DashboardEnv>) {
  const form = c.req.query();
  const userId = filled(form, "userId");
  if (userId === undefined) return page(c, { title: "Users", section: "users" }, <FindUser c={c} />);
  const found = await attempt(async () => {
    const input = parse(historyInput, {
      userId,
      limit: `${LEDGER_ROWS}`,
      balanceId: filled(form, "balanceId"),
      cursor: filled(form, "cursor"),
    });
    const held = await holdings(c.var.ctx, input.userId, BALANCES_MAX);
    const reason = filled(form, "reason");
    const ledger =
      reason === undefined
        ? await ledgerPage(c.var.ctx, input)
        : await ledgerPageOfReason(c.var.ctx, input, parse(ledgerReason, reason));
    return { held, ledger, drawn: await course(c, input.userId, form, held) };
  });
  if (found.result === undefined) return notFound(c, userId, found.refusal);
  const answer =
    filled(form, "event") === undefined
      ? undefined
      : await attempt(async (): Promise<PlanOutput> => plan(c.var.ctx, parse(planInput, planned(form))));
  const { held, ledger, drawn } = found.result;
  return page(
    c,
    {
      title: `User ${userId}`,
      section: "users",
      told: TOLD[form.told ?? ""],
      refusal: answer?.refusal,
    },
    <>
      <FindUser c={c} userId={userId} />
      <Balances c={c} userId={userId} held={held} />
      <Plan c={c} form={form} held={held} plan={answer?.result} />
      <Ledger c={c} form={form} balances={held.balances} page={ledger} drawn={drawn} />
    </>,
  );
}

const notFound = (c: Context<DashboardEnv>, userId: string, refusal: PurserError) =>
  page(c, { title: "Users", section: "users", refusal }, <FindUser c={c} userId={userId} />);

/** The newest motions of the balance that is looked at, or of the first to be spent. */
async function course(c: Context<DashboardEnv>, userId: string, form: Form, held: Holdings) {
  const balance = held.balances.find((each) => each.balanceId === form.balanceId) ?? held.balances[0];
  if (balance === undefined) return null;
  const { rows } = await ledgerPage(c.var.ctx, { userId, balanceId: balance.balanceId, limit: COURSE_ROWS });
  return { balance, rows };
}

export const usersRoutes = () =>
  createDashboardRoutes()
    .get("/users", usersPage)
    .get("/users/ledger.csv", (c) => {
      const form = c.req.query();
      const { userId, balanceId } = parse(historyInput, { userId: form.userId, balanceId: filled(form, "balanceId") });
      const input = balanceId === undefined ? { userId } : { userId, balanceId };
      return c.body(ledgerCsv(c.var.ctx, input, filled(form, "reason")), 200, {
        "content-type": "text/csv; charset=utf-8",
        "content-disposition": 'attachment; filename="ledger.csv"',
      });
    });

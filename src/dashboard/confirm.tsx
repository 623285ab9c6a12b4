import type { Context } from "hono";
import type { Child } from "hono/jsx";
import { listAllBalances } from "../credits/list-all.ts";
import { invalid, type PurserError } from "../errors.ts";
import { Hidden } from "./components.tsx";
import type { DashboardEnv } from "./env.ts";
import { catchRefusal, type Form, textField } from "./form.ts";
import { query } from "./format.ts";
import { FormToken, pathIn } from "./layout.tsx";

/** How many packs are offered, and how many balances are looked through. */
export const SHOWN_MAX = 200;

const userPath = (c: Context<DashboardEnv>, userId: string, notice?: string) =>
  `${pathIn(c, "users")}${query({ userId, notice })}`;

/** Sends back with what it did, or shows the form again with what was refused. */
export async function redirectAfter(
  c: Context<DashboardEnv>,
  notice: string,
  work: () => Promise<unknown>,
  showForm: (refusal: PurserError) => Response | Promise<Response>,
) {
  const done = await catchRefusal(work);
  return done.refusal === undefined
    ? c.redirect(userPath(c, c.var.form.userId ?? "", notice), 303)
    : showForm(done.refusal);
}

interface ConfirmProps {
  readonly c: Context<DashboardEnv>;
  readonly action: string;
  /** What is sent on, unchanged. */
  readonly fields: Readonly<Record<string, string>>;
  readonly button: string;
  readonly children: Child;
}

/** What is about to happen, to be confirmed. */
export const Confirm = ({ c, action, fields, button, children }: ConfirmProps) => (
  <form method="post" action={pathIn(c, action)} class="card">
    <FormToken c={c} />
    <Hidden fields={fields} />
    {children}
    <div class="row">
      <button type="submit">{button}</button>
      <a class="button quiet" href={userPath(c, fields.userId ?? "")}>
        Leave it
      </a>
    </div>
  </form>
);

export const formFields = ({ _form, ...fields }: Form): Record<string, string> => ({ ...fields });

/** A note that a person must give; the API leaves it free. */
export function requireReason(form: Form, name: string): string {
  const reason = textField(form, name);
  if (reason === undefined) throw invalid(name, "Say why: the ledger keeps it.");
  return reason;
}

/** The balance that a form names, if the user has it. */
export async function findBalance(c: Context<DashboardEnv>, form: Form) {
  const { balances } = await listAllBalances(c.var.ctx, form.userId ?? "", SHOWN_MAX);
  return balances.find((balance) => balance.balanceId === form.balanceId);
}

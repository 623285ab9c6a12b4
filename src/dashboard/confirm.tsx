import type { Context } from "hono";
import type { Child } from "hono/jsx";
import { listAllBalances } from "../credits/list-all.ts";
import { invalid, type PurserError } from "../errors.ts";
import { Hidden } from "./components.tsx";
import type { DashboardEnv } from "./env.ts";
import { catchRefusal, type Form, textField } from "./form.ts";
import { query } from "./format.ts";
import { FormToken, pathIn } from "./layout.tsx";

/** How many packs are offered, and how many balances are searched. */
export const SHOWN_MAX = 200;

const userPath = (c: Context<DashboardEnv>, userId: string, notice?: string) =>
  `${pathIn(c, "users")}${query({ userId, notice })}`;

/** Redirects to the user's page with a notice. If the action is refused, shows the form again with the refusal. */
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
  /** Sent on unchanged. */
  readonly fields: Readonly<Record<string, string>>;
  readonly button: string;
  readonly children: Child;
}

/** A form that shows an action and asks to confirm it. */
export const Confirm = ({ c, action, fields, button, children }: ConfirmProps) => (
  <form method="post" action={pathIn(c, action)} class="card">
    <FormToken c={c} />
    <Hidden fields={fields} />
    {children}
    <div class="row">
      <button type="submit">{button}</button>
      <a class="button quiet" href={userPath(c, fields.userId ?? "")}>
        Cancel
      </a>
    </div>
  </form>
);

export const formFields = ({ _form, ...fields }: Form): Record<string, string> => ({ ...fields });

/** A reason, which the dashboard requires. In the API it is optional. */
export function requireReason(form: Form, name: string): string {
  const reason = textField(form, name);
  if (reason === undefined) throw invalid(name, "A reason is required.");
  return reason;
}

/** The balance that a form names, if the user has it. */
export async function findBalance(c: Context<DashboardEnv>, form: Form) {
  const { balances } = await listAllBalances(c.var.ctx, form.userId ?? "", SHOWN_MAX);
  return balances.find((balance) => balance.balanceId === form.balanceId);
}

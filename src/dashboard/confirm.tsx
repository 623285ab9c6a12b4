import type { Context } from "hono";
import type { Child } from "hono/jsx";
import type { Unit } from "../books/amounts/amount.ts";
import { isKnownUser } from "../books/credits/users.ts";
import { invalid, type PurserError } from "../errors.ts";
import type { TenantCtx } from "../runtime.ts";
import { Hidden } from "./fields.tsx";
import { catchRejection, type DashboardEnv, type Form, textField } from "./form.ts";
import { queryString } from "./format.tsx";
import { FormToken, pathIn } from "./layout.tsx";
import { UnitAmount } from "./unit-amount.tsx";

/** The longest reason. It must fit in a link, because a confirmation is a page that can be reloaded. */
const REASON_MAX = 500;

/** Redirects to the user's page with a notice. If the action is rejected, shows the form again with the rejection. */
export async function redirectAfter(
  c: Context<DashboardEnv>,
  work: () => Promise<string>,
  showForm: (rejection: PurserError) => Response | Promise<Response>,
) {
  const done = await catchRejection(async () => {
    assertSure(c.var.form);
    return work();
  });
  if (done.rejection !== undefined) return showForm(done.rejection);
  return c.redirect(`${pathIn(c, "users")}${queryString({ userId: c.var.form.userId, notice: done.result })}`, 303);
}

/** The amount of each unit from which a confirmation asks twice. */
const LARGE: Readonly<Record<Unit, number>> = {
  count: 100_000,
  tokens: 10_000_000,
  seconds: 1_000_000,
  cents: 100_000,
};

/** Returns the warnings about an amount, which a confirmation must ask about. */
export function warnAboutAmount(unit: Unit, value: number): readonly Child[] {
  if (Math.abs(value) < LARGE[unit]) return [];
  return [
    <>
      This is a large amount: <UnitAmount of={Math.abs(value)} unit={unit} />.
    </>,
  ];
}

/** Returns the warnings about a user id, which a confirmation must ask about: spaces around it, and an id without a user. */
export async function warnAboutId(ctx: TenantCtx, userId: string): Promise<readonly string[]> {
  return [
    ...(userId === userId.trim() ? [] : [`The user id begins or ends with a space: “${userId}”.`]),
    ...((await isKnownUser(ctx, userId)) ? [] : ["No user has this id yet. The grant creates a new user."]),
  ];
}

/** Throws unless the form has an answer to its confirmation's warnings. */
export function assertSure(form: Form): void {
  if (form.asked === "yes" && form.sure !== "yes") {
    throw invalid("sure", "Nothing was changed: tick the box to confirm.");
  }
}

interface ConfirmProps {
  readonly c: Context<DashboardEnv>;
  readonly action: string;
  /** Sent unchanged with the confirmation. */
  readonly fields: Readonly<Record<string, string>>;
  readonly button: string;
  /** The path that Cancel leads to, within the application. */
  readonly cancel: string;
  /** The path of the form as it was typed, within the application. */
  readonly change?: string;
  readonly isDangerous?: boolean;
  /** The warnings to ask about. */
  readonly warnings?: readonly Child[];
  readonly children: Child;
}

/** Shows an action and asks to confirm it; asks twice if there are warnings. */
export const Confirm = ({ c, action, fields, button, isDangerous, warnings = [], children, ...to }: ConfirmProps) => (
  <form method="post" action={pathIn(c, action)} class="card">
    <FormToken c={c} />
    <Hidden fields={{ ...fields, ...(warnings.length === 0 ? {} : { asked: "yes" }) }} />
    {children}
    {warnings.length > 0 && (
      <div class="warn-box">
        <ul>
          {warnings.map((warning) => (
            <li>{warning}</li>
          ))}
        </ul>
        <label>
          <input type="checkbox" name="sure" value="yes" required /> I have checked this. {button}.
        </label>
      </div>
    )}
    <div class="row">
      <button type="submit" class={isDangerous === true ? "danger" : undefined}>
        {button}
      </button>
      {to.change !== undefined && (
        <a class="button quiet" href={pathIn(c, to.change)}>
          Change
        </a>
      )}
      <a class="button quiet" href={pathIn(c, to.cancel)}>
        Cancel
      </a>
    </div>
  </form>
);

/** Returns the fields of a form that its confirmation and its action receive. */
export const formFields = ({ _form, asked, sure, notice, ...fields }: Form): Record<string, string> => ({ ...fields });

/** Returns a reason, which the dashboard requires. In the API it is optional. */
export function requireReason(form: Form, name: string): string {
  const reason = textField(form, name);
  if (reason === undefined || reason.trim() === "") throw invalid(name, "A reason is required.");
  if ([...reason].length > REASON_MAX) throw invalid(name, `must have at most ${REASON_MAX} characters`);
  return reason;
}

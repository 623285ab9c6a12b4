import type { Child } from "hono/jsx";
import type { Unit } from "../books/amounts/amount.ts";
import { isKnownUser } from "../books/credits/users.ts";
import { invalid, type PurserError } from "../errors.ts";
import type { TenantCtx } from "../runtime.ts";
import { AppLink, LinkButton } from "./app-link.tsx";
import { Facts, type ShownFact } from "./components.tsx";
import { FormContext, LongText } from "./fields.tsx";
import { catchRejection, createDashboardRoutes, type Form, type PageContext, textField, useRequest } from "./form.ts";
import { AppForm, onSubmit, type ShowForm } from "./form-card.tsx";
import { page, sectionOfPath } from "./layout.tsx";
import type { Section } from "./shell.tsx";
import { UnitAmount } from "./unit-amount.tsx";

/** The longest reason. It must fit in a link, because a confirmation is a page that can be reloaded. */
const REASON_MAX = 500;

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

interface ConfirmProps {
  /** By default, the path of the page itself. */
  readonly action?: string;
  /** Sent unchanged with the confirmation. */
  readonly fields?: Readonly<Record<string, string>>;
  /** The form that was typed before. It is sent as well, and can be changed. */
  readonly typed?: Form;
  /** The path of that form. By default, the path of the action. */
  readonly change?: string;
  readonly button: string;
  /** The path that Cancel leads to, within the application. */
  readonly cancel: string;
  readonly isDangerous?: boolean;
  /** The warnings to ask about. */
  readonly warnings?: readonly Child[];
  /** The effect of the action: amounts before and after it. */
  readonly facts?: readonly ShownFact[];
  /** The texts of the confirmation's own fields, and its rejection. */
  readonly form?: Form;
  readonly rejection?: PurserError | undefined;
  readonly children?: Child;
}

/** Shows an action and its effect, and asks to confirm it; asks twice if there are warnings. */
const Confirm = (props: ConfirmProps) => {
  const { action = useRequest().req.path, typed, button, warnings = [], facts = [], children } = props;
  const fields = { ...(typed && formFields(typed)), ...props.fields };
  return (
    <FormContext.Provider value={{ form: props.form ?? {}, rejection: props.rejection }}>
      <AppForm action={action} class="card" fields={{ ...fields, ...(warnings.length === 0 ? {} : { asked: "yes" }) }}>
        {facts.length > 0 && <Facts of={facts} />}
        {typeof children === "string" ? <p>{children}</p> : children}
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
          <button type="submit" class={props.isDangerous === true ? "danger" : undefined}>
            {button}
          </button>
          {typed !== undefined && <LinkButton text="Change" to={props.change ?? action} fields={fields} />}
          <LinkButton text="Cancel" to={props.cancel} />
        </div>
      </AppForm>
    </FormContext.Provider>
  );
};

interface ConfirmPageProps extends Omit<ConfirmProps, "c" | "children"> {
  /** Parts above and below the confirmation. */
  readonly above?: Child;
  readonly below?: Child;
  /** By default, the text of the button. */
  readonly title?: string;
  /** By default, the section of the path. */
  readonly section?: Section;
}

/** Returns the page that asks to confirm an action. */
export const confirmPage = (c: PageContext, props: ConfirmPageProps, children?: Child) => {
  const { title = props.button, section = sectionOfPath(c), rejection, above, below } = props;
  return page(
    c,
    { title, section, rejection },
    <>
      {above}
      <Confirm {...props}>{children}</Confirm>
      {below}
    </>,
  );
};

/** Returns the routes of an action that is confirmed: the page that asks, and the handler of its form. */
export const askRoutes = (path: string, ask: ShowForm, act: (c: PageContext) => Promise<string>, again = ask) =>
  createDashboardRoutes()
    .get(path, (c) => ask(c, c.req.query()))
    .post(path, onSubmit(act, again));

interface Steps {
  /** Shows the form. */
  readonly form: ShowForm;
  /** Shows its effect, and asks. If it throws a rejection, the form is shown with it. */
  readonly confirm: ShowForm;
  /** Does what was confirmed, and returns the path of the next page. */
  readonly act: (c: PageContext) => Promise<string>;
}

/** Returns the routes of a form whose effect is confirmed. */
export function stepRoutes(path: string, { form, confirm, act }: Steps) {
  const ask: ShowForm = async (c, fields, rejection) => {
    const { result, rejection: rejected } = await catchRejection(async () => confirm(c, fields, rejection));
    return result ?? form(c, fields, rejected);
  };
  return createDashboardRoutes()
    .get(path, (c) => form(c, c.req.query()))
    .get(`${path}/confirm`, (c) => ask(c, c.req.query()))
    .post(
      path,
      onSubmit(act, (c, fields, rejection) => (rejection?.param === "sure" ? ask : form)(c, fields, rejection)),
    );
}

/** Shows why an action of a user's page was rejected, with a link back. */
export const backToUser =
  (title: string): ShowForm =>
  (c, { userId }, rejection) =>
    page(
      c,
      { title, section: "users", rejection },
      <p class="card">
        <AppLink to="users" fields={{ userId }}>
          Back to the user
        </AppLink>
      </p>,
    );

/** The field of a reason, which `requireReason` reads. */
export const ReasonField = ({ name = "reason" }: { name?: string }) => (
  <LongText label="Reason (kept in the ledger)" name={name} required />
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

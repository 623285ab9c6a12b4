import type { Child } from "hono/jsx";
import { invalid, type PurserError } from "../errors.ts";
import { pathIn } from "./app-link.tsx";
import { SubmitButton } from "./components.tsx";
import { type FilledForm, FormContext, Hidden } from "./fields.tsx";
import { catchRejection, type Form, type PageContext, useRequest } from "./form.ts";
import { FormToken } from "./layout.tsx";

interface AppFormProps {
  /** The path within the application, or from the root. */
  readonly action: string;
  /** The id of the part of the page that a `get` form leads to. */
  readonly hash?: string;
  readonly method?: "get" | "post";
  readonly class?: string;
  readonly id?: string;
  /** Sent unseen. */
  readonly fields?: Readonly<Record<string, string>>;
  /** Whether a form that is sent twice takes effect once, by its nonce. */
  readonly once?: boolean;
  readonly children?: Child;
}

/** A form of the application. One that changes something has the token of the session. */
export const AppForm = ({
  action,
  hash,
  method = "post",
  fields = {},
  once,
  children,
  ...attributes
}: AppFormProps) => {
  const c = useRequest();
  // A form that is shown again keeps its nonce.
  const nonce = once === true ? { nonce: c.var.form?.nonce ?? c.var.root.newId("") } : {};
  return (
    <form method={method} action={`${pathIn(c, action)}${hash === undefined ? "" : `#${hash}`}`} {...attributes}>
      {method === "post" && <FormToken />}
      <Hidden fields={{ ...fields, ...nonce }} />
      {children}
    </form>
  );
};

interface FormCardProps extends Partial<FilledForm>, Omit<AppFormProps, "class" | "hash"> {
  readonly title?: string;
  /** Says what the form does, above its fields. */
  readonly about?: Child;
  /** The text of the button. Absent when the fields contain the buttons. */
  readonly button?: string;
  /** Shown after the button. */
  readonly beside?: Child;
}

/**
 * Shows a form as a card: its fields in a row, and its button. The fields' texts, errors and whether they are required come from
 * the form, the rejection and the schema.
 */
export const FormCard = (props: FormCardProps) => {
  const { title, about, button, beside, children, rejection, schema, form, ...own } = props;
  const typed = form ?? useRequest().var.form ?? {};
  return (
    <FormContext.Provider value={{ form: typed, rejection, schema }}>
      <AppForm {...own} class="card">
        {title !== undefined && <h2>{title}</h2>}
        {about !== undefined && <p class="soft">{about}</p>}
        <div class="row">
          {children}
          {button !== undefined && <SubmitButton text={button} />}
          {beside}
        </div>
      </AppForm>
    </FormContext.Provider>
  );
};

/** Throws unless the form has an answer to its confirmation's warnings. */
export function assertSure(form: Form): void {
  if (form.asked === "yes" && form.sure !== "yes") {
    throw invalid("sure", "Nothing was changed: tick the box to confirm.");
  }
}

/** Shows the page of a form, as it was typed, with its rejection. */
export type ShowForm = (c: PageContext, form: Form, rejection?: PurserError) => Response | Promise<Response>;

/**
 * Returns the handler of a form. `act` does what the form asks for, and returns the path of the next page. If it is rejected,
 * `again` shows the form's page with the rejection.
 */
export const onSubmit = (act: (c: PageContext) => Promise<string>, again: ShowForm) => async (c: PageContext) => {
  const { form } = c.var;
  const done = await catchRejection(async () => {
    assertSure(form);
    return act(c);
  });
  return done.rejection === undefined ? c.redirect(pathIn(c, done.result), 303) : again(c, form, done.rejection);
};

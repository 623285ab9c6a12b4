import type { Child } from "hono/jsx";
import type { PurserError } from "../errors.ts";
import { type FilledForm, FormContext, Hidden } from "./fields.tsx";
import { catchRejection, type PageContext } from "./form.ts";
import { FormToken, pathIn } from "./layout.tsx";

interface FormCardProps extends Partial<FilledForm> {
  readonly c: PageContext;
  /** The path within the application, or from the root. */
  readonly action: string;
  /** `get` for a form that leads to a confirmation. */
  readonly method?: "get" | "post";
  readonly title?: string;
  /** Says what the form does, above its fields. */
  readonly about?: Child;
  /** The text of the button. Absent when the fields contain the buttons. */
  readonly button?: string;
  /** Shown after the button. */
  readonly beside?: Child;
  /** The id of the form on its page. */
  readonly id?: string;
  /** Whether a form that is sent twice takes effect once, by its nonce. */
  readonly once?: boolean;
  readonly hidden?: Readonly<Record<string, string>>;
  /** The fields. Their texts, errors and whether they are required come from the form, the rejection and the schema. */
  readonly children?: Child;
}

/** Shows a form as a card: its fields in a row, and its button. */
export const FormCard = (props: FormCardProps) => {
  const { c, action, method = "post", title, about, button, beside, id, once, hidden = {}, children } = props;
  const { form = c.var.form ?? {}, rejection, schema } = props;
  const nonce = once === true ? { nonce: form.nonce ?? c.var.root.newId("") } : {};
  return (
    <FormContext.Provider value={{ form, rejection, schema }}>
      <form method={method} action={pathIn(c, action)} class="card" id={id}>
        {title !== undefined && <h2>{title}</h2>}
        {about !== undefined && <p class="soft">{about}</p>}
        {method === "post" && <FormToken c={c} />}
        <Hidden fields={{ ...hidden, ...nonce }} />
        <div class="row">
          {children}
          {button !== undefined && <button type="submit">{button}</button>}
          {beside}
        </div>
      </form>
    </FormContext.Provider>
  );
};

/** The page after a form, and the page of a rejected form. */
interface Answers<T> {
  /** The path within the application, or from the root. */
  readonly to: string | ((result: T) => string | Promise<string>);
  readonly again: (rejection: PurserError) => Response | Promise<Response>;
}

/** Does what a form asks for, then redirects. If it is rejected, shows the form's page again with the rejection. */
export async function submit<T>(c: PageContext, work: () => Promise<T>, { to, again }: Answers<T>) {
  const done = await catchRejection(work);
  if (done.rejection !== undefined) return again(done.rejection);
  return c.redirect(pathIn(c, typeof to === "string" ? to : await to(done.result)), 303);
}

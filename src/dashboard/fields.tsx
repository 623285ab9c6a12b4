import { type Child, createContext, useContext } from "hono/jsx";
import type * as z from "zod";
import type { PurserError } from "../errors.ts";
import { nextId } from "./components.tsx";
import type { Form } from "./form.ts";

/** The schema of an operation's body. */
export type FormSchema = z.ZodLazy<z.ZodObject> | z.ZodObject;

/** The texts of a form as they were typed or are stored, its rejection, and the schema of its operation. */
export interface FilledForm {
  readonly form: Form;
  readonly rejection?: PurserError | undefined;
  readonly schema?: FormSchema | undefined;
}

/** The form around a field. */
export const FormContext = createContext<FilledForm>({ form: {} });

/** Returns whether the operation rejects a body without this argument. */
function isRequired(schema: FormSchema | undefined, name: string): boolean | undefined {
  const shape = schema === undefined ? undefined : "unwrap" in schema ? schema.unwrap().shape : schema.shape;
  return shape !== undefined && Object.hasOwn(shape, name) ? !shape[name]?.safeParse(undefined).success : undefined;
}

/** Returns a field's properties with those that it takes from its form. */
function useForm<Props extends Rejectable & { readonly value?: string | undefined; readonly required?: boolean }>(
  props: Props,
) {
  const { form, rejection, schema } = useContext(FormContext);
  const filled = { ...props, rejection: props.rejection ?? rejection };
  return {
    error: findFieldError(filled),
    value: props.value ?? form[props.name],
    required: props.required ?? isRequired(schema, props.name),
  };
}

/** The properties of a field that shows the rejection of its argument. */
interface Rejectable {
  readonly label: string;
  readonly name: string;
  /** The rejection, if it is not that of the form around the field. */
  readonly rejection?: PurserError | undefined;
  /** The argument that the rejection names, if it is not the field's name. */
  readonly param?: string;
}

interface FieldProps extends Rejectable {
  readonly value?: string | undefined;
  readonly hint?: string;
  readonly type?: "text" | "number" | "password" | "datetime-local" | "date";
  readonly required?: boolean;
  readonly placeholder?: string;
  readonly autocomplete?: string;
  /** Whether this field was rejected while the top of the page shows the reason. */
  readonly isBad?: boolean;
  readonly list?: string;
  readonly step?: string;
}

/**
 * Returns the rejection's message for a field, or a part of it, without the argument's name. Null when the rejection is about
 * another field.
 */
function findFieldError({ label, name, param = name, rejection }: Rejectable): string | null {
  if (rejection?.param === undefined) return null;
  const inner = rejection.param.slice(param.length);
  if (!rejection.param.startsWith(param) || !/^($|\[|\.)/.test(inner)) return null;
  const { message } = rejection;
  const [title = label] = label.split(" (");
  const [, index, field = ""] = /^\[(\d+)\](.*)$/.exec(inner) ?? [];
  const part = index === undefined ? "" : ` (no. ${Number(index) + 1}${field.replace(".", ", ")})`;
  return message.startsWith(`${rejection.param} `)
    ? `${title}${part} ${message.slice(rejection.param.length + 1)}`
    : message;
}

/** Shows a rejection that no field shows. */
export const RejectionText = ({ rejection: { message, param } }: { rejection: PurserError }) =>
  param !== undefined && message.startsWith(`${param} `) ? (
    <>
      <code>{param}</code>
      <Message text={message.slice(param.length)} />
    </>
  ) : (
    <Message text={message} />
  );

/** Shows a message of the API, in which names stand between backticks. */
const Message = ({ text }: { text: string }) => (
  <>{text.split("`").map((part, index) => (index % 2 === 1 ? <code>{part}</code> : part))}</>
);

/** The class of a field's error. A page that contains it does not show the rejection a second time. */
export const FIELD_ERROR = "field-error";

const FieldError = ({ id, error }: { id: string; error: string | null }) =>
  error === null ? null : (
    <span class={FIELD_ERROR} id={`${id}-error`} role="alert">
      <Message text={error} />
    </span>
  );

/** Returns the attributes of a rejected control: screen readers announce it, and it has the focus. */
const refused = (id: string, error: string | null) =>
  error === null ? {} : { "aria-invalid": "true" as const, "aria-describedby": `${id}-error`, autofocus: true };

export const Field = (props: FieldProps) => {
  const id = nextId(props.name);
  const { error, value, required } = useForm(props);
  return (
    <div class="field">
      <label for={id}>
        {props.label}
        {props.hint !== undefined && <span class="hint"> · {props.hint}</span>}
      </label>
      <FieldError id={id} error={error} />
      <input
        id={id}
        name={props.name}
        type={props.type ?? "text"}
        value={value ?? ""}
        required={required}
        placeholder={props.placeholder}
        autocomplete={props.autocomplete ?? "off"}
        list={props.list}
        step={props.step}
        aria-invalid={props.isBad === true ? "true" : undefined}
        {...refused(id, error)}
      />
    </div>
  );
};

interface ChoiceProps extends Rejectable {
  readonly value?: string | undefined;
  /** Values whose label is the same stand alone. */
  readonly options: readonly (string | readonly [value: string, label: string])[];
}

export const Choice = (props: ChoiceProps) => {
  const id = nextId(props.name);
  const { error, value: chosen } = useForm(props);
  return (
    <div class="field">
      <label for={id}>{props.label}</label>
      <FieldError id={id} error={error} />
      <select id={id} name={props.name} {...refused(id, error)}>
        {props.options.map((option) => {
          const [value, label] = typeof option === "string" ? [option, option] : option;
          return (
            <option value={value} selected={value === chosen}>
              {label}
            </option>
          );
        })}
      </select>
    </div>
  );
};

export const LongText = (props: Rejectable & { value?: string | undefined; required?: boolean }) => {
  const id = nextId(props.name);
  const { error, value, required } = useForm(props);
  return (
    <div class="field wide">
      <label for={id}>{props.label}</label>
      <FieldError id={id} error={error} />
      <textarea id={id} name={props.name} rows={2} required={required} {...refused(id, error)}>
        {value ?? ""}
      </textarea>
    </div>
  );
};

/** Shows a box to tick. Its value is `yes`. */
export const Check = ({ name, children }: { name: string; children: Child }) => {
  const { form } = useContext(FormContext);
  return (
    <label>
      <input type="checkbox" name={name} value="yes" checked={form[name] === "yes"} /> {children}
    </label>
  );
};

export const Hidden = (props: { fields: Readonly<Record<string, string>> }) => (
  <>
    {Object.entries(props.fields).map(([name, value]) => (
      <input type="hidden" name={name} value={value} />
    ))}
  </>
);

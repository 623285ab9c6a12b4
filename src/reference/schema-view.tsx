import { type Schema, schemaName } from "./sections.ts";
import { InlineText } from "./text.tsx";

const alternatives = (schema: Schema): readonly Schema[] => schema.anyOf ?? schema.oneOf ?? [];
const isNull = (schema: Schema): boolean => schema.type === "null";

/** What a field holds, in a few words: "string", "list of CreditBalance", "timestamp or null". */
function TypeOf({ schema, isLinked = true }: { schema: Schema; isLinked?: boolean }) {
  const name = schemaName(schema);
  if (name !== null && !isLinked) return <>{name}</>;
  if (name !== null) return <a href={`#schema-${name}`}>{name}</a>;
  const forms = alternatives(schema);
  if (forms.length > 0) {
    return (
      <>
        {forms.map((form, index) => (
          <>
            {index > 0 && " or "}
            <TypeOf schema={form} isLinked={isLinked} />
          </>
        ))}
      </>
    );
  }
  if (schema.items !== undefined) {
    const isPlain = schemaName(schema.items) === null && alternatives(schema.items).length === 0;
    return (
      <>
        list of <TypeOf schema={schema.items} isLinked={isLinked} />
        {isPlain && "s"}
      </>
    );
  }
  if (schema.const !== undefined) return <code>{JSON.stringify(schema.const)}</code>;
  return <>{plainType(schema)}</>;
}

function plainType(schema: Schema): string {
  if (schema.format === "date-time") return "timestamp";
  if (schema.format === "uri") return "URL";
  if (schema.type === undefined) return "anything";
  return [schema.type].flat().join(" or ");
}

/** zod bounds every integer by what a double tells apart, which says nothing to a reader. */
const bound = (limit: number | undefined): number | undefined =>
  Math.abs(limit ?? 0) === Number.MAX_SAFE_INTEGER ? undefined : limit;

/** Bounds and choices, each as a short phrase. */
function limitsOf(schema: Schema): string[] {
  const [subject = schema] = alternatives(schema).filter((form) => !isNull(form));
  const limits: string[] = [];
  if (subject.enum !== undefined) limits.push(`One of ${subject.enum.map((value) => `\`${value}\``).join(", ")}.`);
  if (subject.maxLength !== undefined) limits.push(`At most ${subject.maxLength} characters.`);
  if (subject.maxItems !== undefined) limits.push(`At most ${subject.maxItems}.`);
  const [least, most] = [bound(subject.minimum), bound(subject.maximum)];
  if (least !== undefined && most !== undefined) limits.push(`From ${least} to ${most}.`);
  else if (least !== undefined) limits.push(`At least ${least}.`);
  else if (most !== undefined) limits.push(`At most ${most}.`);
  if (schema.default !== undefined) limits.push(`Default \`${JSON.stringify(schema.default)}\`.`);
  return limits;
}

export interface FieldProps {
  readonly name: string;
  readonly schema: Schema;
  /** Whether it must be there, said only where that is not what a reader takes for granted. */
  readonly mark: "required" | "may be absent" | null;
  readonly description?: string | undefined;
  readonly hint?: string;
  readonly isAnswer?: boolean;
}

export function Field({ name, schema, mark, description, hint, isAnswer = false }: FieldProps) {
  const words = [description ?? schema.description ?? "", ...limitsOf(schema)].filter((text) => text !== "").join(" ");
  return (
    <li class="field">
      <div class="signature">
        <code class="name">{name}</code>
        <span class="type">
          <TypeOf schema={schema} />
        </span>
        {hint !== undefined && <span class="type">{hint}</span>}
        {mark !== null && <span class={mark === "required" ? "required" : "type"}>{mark}</span>}
      </div>
      {words !== "" && (
        <p>
          <InlineText text={words} />
        </p>
      )}
      <NestedFields schema={schema} isAnswer={isAnswer} />
    </li>
  );
}

/** The fields inside a field; those of a named schema are told once, in their own place. */
function NestedFields({ schema, isAnswer = false }: SchemaProps) {
  if (schemaName(schema) !== null) return null;
  if (schema.items !== undefined) return <NestedFields schema={schema.items} isAnswer={isAnswer} />;
  const forms = alternatives(schema).filter((form) => !isNull(form));
  if (forms.length > 0)
    return (
      <>
        {forms.map((form) => (
          <NestedFields schema={form} isAnswer={isAnswer} />
        ))}
      </>
    );
  if (Object.keys(schema.properties ?? {}).length === 0) return null;
  return (
    <details>
      <summary>Its fields</summary>
      <Fields schema={schema} isAnswer={isAnswer} />
    </details>
  );
}

interface SchemaProps {
  readonly schema: Schema;
  /** An answer's fields are all there unless said otherwise; a request's may be left out unless said otherwise. */
  readonly isAnswer?: boolean;
}

function markOf(isRequired: boolean, isAnswer: boolean): FieldProps["mark"] {
  if (isAnswer) return isRequired ? null : "may be absent";
  return isRequired ? "required" : null;
}

/** The fields of an object; of each form, where there are several. */
export function Fields({ schema, isAnswer = false }: SchemaProps) {
  const properties = Object.entries(schema.properties ?? {});
  if (schemaName(schema) !== null || properties.length === 0) return <Shape schema={schema} isAnswer={isAnswer} />;
  return (
    <ul class="fields">
      {properties.map(([field, inner]) => (
        <Field
          name={field}
          schema={inner}
          mark={markOf(schema.required?.includes(field) ?? false, isAnswer)}
          isAnswer={isAnswer}
        />
      ))}
    </ul>
  );
}

/** What is no object with fields: a choice of forms, a list, or a plain value. */
function Shape({ schema, isAnswer = false }: SchemaProps) {
  const forms = alternatives(schema);
  if (forms.length > 1) {
    return (
      <>
        {forms.map((form, index) => (
          <details open={index === 0}>
            <summary>
              {index === 0 ? "As " : "Or as "}
              <TypeOf schema={form} isLinked={false} />
            </summary>
            <Fields schema={form} isAnswer={isAnswer} />
          </details>
        ))}
      </>
    );
  }
  const inner = schema.items;
  const limits = limitsOf(schema).join(" ");
  return (
    <>
      <p class="type">
        <TypeOf schema={schema} /> <InlineText text={limits} />
      </p>
      {inner?.properties !== undefined && <Fields schema={inner} isAnswer={isAnswer} />}
    </>
  );
}

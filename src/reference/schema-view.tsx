import type { Child } from "hono/jsx";
import { type Schema, schemaName } from "./sections.ts";

const INLINE = /(`[^`]+`|\*\*[^*]+\*\*)/;

/** Shows one line of the CommonMark that the descriptions use: `code` and **bold**. */
export function InlineText({ text }: { text: string }) {
  return (
    <>
      {text.split(INLINE).map((part) => {
        if (part.startsWith("`")) return <code>{part.slice(1, -1)}</code>;
        if (part.startsWith("**")) return <strong>{part.slice(2, -2)}</strong>;
        return part;
      })}
    </>
  );
}

export function Paragraphs({ text }: { text: string }) {
  return (
    <>
      {text.split("\n\n").map((paragraph) => (
        <p>
          <InlineText text={paragraph} />
        </p>
      ))}
    </>
  );
}

const JSON_TOKEN = /("(?:[^"\\]|\\.)*"(?:\s*:)?|\b(?:true|false|null)\b|-?\d+(?:\.\d+)?)/;

const codeClassOf = (token: string): string => {
  if (token.endsWith(":")) return "key";
  return token.startsWith('"') ? "string" : "literal";
};

/** Shows JSON with coloured parts. */
export function ColouredJson({ text }: { text: string }) {
  const parts: Child[] = text
    .split(JSON_TOKEN)
    .map((part, index) => (index % 2 === 1 ? <span class={codeClassOf(part)}>{part}</span> : part));
  return <>{parts}</>;
}

const alternatives = (schema: Schema): readonly Schema[] => schema.anyOf ?? schema.oneOf ?? [];
const isNull = (schema: Schema): boolean => schema.type === "null";

/** Shows the type of a field: "string", "list of CreditBalance", "timestamp or null". */
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

/** Returns a bound to show. zod gives every integer the bounds of a double, which do not help a reader. */
const bound = (limit: number | undefined): number | undefined =>
  Math.abs(limit ?? 0) === Number.MAX_SAFE_INTEGER ? undefined : limit;

/** Returns bounds and choices, each as a short sentence. */
function boundsOfSchema(schema: Schema): string[] {
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

export interface FieldViewProps {
  readonly name: string;
  readonly schema: Schema;
  /** Shown only where it differs from the default: a request's fields are optional, a response's fields are present. */
  readonly mark: "required" | "may be absent" | null;
  readonly description?: string | undefined;
  readonly hint?: string;
  readonly isResponse?: boolean;
}

export function FieldView({ name, schema, mark, description, hint, isResponse = false }: FieldViewProps) {
  const text = [description ?? schema.description ?? "", ...boundsOfSchema(schema)]
    .filter((part) => part !== "")
    .join(" ");
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
      {text !== "" && (
        <p>
          <InlineText text={text} />
        </p>
      )}
      <NestedFields schema={schema} isResponse={isResponse} />
    </li>
  );
}

/** Shows the fields inside a field. The fields of a named schema are shown once, with that schema. */
function NestedFields({ schema, isResponse = false }: SchemaProps) {
  if (schemaName(schema) !== null) return null;
  if (schema.items !== undefined) return <NestedFields schema={schema.items} isResponse={isResponse} />;
  const forms = alternatives(schema).filter((form) => !isNull(form));
  if (forms.length > 0)
    return (
      <>
        {forms.map((form) => (
          <NestedFields schema={form} isResponse={isResponse} />
        ))}
      </>
    );
  if (Object.keys(schema.properties ?? {}).length === 0) return null;
  return (
    <details>
      <summary>Fields</summary>
      <Fields schema={schema} isResponse={isResponse} />
    </details>
  );
}

interface SchemaProps {
  readonly schema: Schema;
  /** Unless marked, a response's fields are present and a request's fields are optional. */
  readonly isResponse?: boolean;
}

function markOfSchema(isRequired: boolean, isResponse: boolean): FieldViewProps["mark"] {
  if (isResponse) return isRequired ? null : "may be absent";
  return isRequired ? "required" : null;
}

/** Shows the fields of an object, or of each form in a choice of forms. */
export function Fields({ schema, isResponse = false }: SchemaProps) {
  const properties = Object.entries(schema.properties ?? {});
  if (schemaName(schema) !== null || properties.length === 0) return <Shape schema={schema} isResponse={isResponse} />;
  return (
    <ul class="fields">
      {properties.map(([field, inner]) => (
        <FieldView
          name={field}
          schema={inner}
          mark={markOfSchema(schema.required?.includes(field) ?? false, isResponse)}
          isResponse={isResponse}
        />
      ))}
    </ul>
  );
}

/** Shows a schema that is not an object with fields: a choice of forms, a list, or a plain value. */
function Shape({ schema, isResponse = false }: SchemaProps) {
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
            <Fields schema={form} isResponse={isResponse} />
          </details>
        ))}
      </>
    );
  }
  const inner = schema.items;
  const limits = boundsOfSchema(schema).join(" ");
  return (
    <>
      <p class="type">
        <TypeOf schema={schema} /> <InlineText text={limits} />
      </p>
      {inner?.properties !== undefined && <Fields schema={inner} isResponse={isResponse} />}
    </>
  );
}

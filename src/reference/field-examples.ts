import { isJsonObject } from "../lib/json.ts";
import { FIELD_WORDS } from "./field-words.ts";

/** A part of the document, which is written to. */
export type Schema = Record<string, unknown>;

export const isSchema = (value: unknown): value is Schema => isJsonObject(value);
const schemasIn = (value: unknown): Schema[] => (Array.isArray(value) ? value.filter(isSchema) : []);

/** Returns the forms of a schema: itself, or those of its `anyOf`, `oneOf` or `allOf`. References are resolved. */
function formsOf(schema: Schema, components: Schema): Schema[] {
  const { $ref } = schema;
  const target = typeof $ref === "string" ? components[$ref.split("/").at(-1) ?? ""] : undefined;
  const forms = [...schemasIn(schema.anyOf), ...schemasIn(schema.oneOf), ...schemasIn(schema.allOf)];
  if (isSchema(target)) forms.push(target);
  return forms.length === 0 ? [schema] : forms.flatMap((form) => formsOf(form, components));
}

const propertiesOf = (schema: Schema): [string, Schema][] =>
  isSchema(schema.properties)
    ? Object.entries(schema.properties).filter((entry): entry is [string, Schema] => isSchema(entry[1]))
    : [];

/** Returns whether an object can have this form: it has all required fields, and no field that the form does not allow. */
function fits(form: Schema, value: object): boolean {
  const known = isSchema(form.properties) ? form.properties : {};
  const required = Array.isArray(form.required) ? form.required : [];
  return (
    required.every((name) => Object.hasOwn(value, String(name))) &&
    (form.additionalProperties !== false || Object.keys(value).every((name) => Object.hasOwn(known, name)))
  );
}

/** Adds the examples of an operation to the fields that have none. `value` is an example of what `schema` describes. */
export function addExamples(schema: Schema, value: unknown, components: Schema): void {
  for (const form of formsOf(schema, components)) {
    if (Array.isArray(value) && isSchema(form.items)) {
      for (const element of value) addExamples(form.items, element, components);
    }
    if (!isJsonObject(value) || !fits(form, value)) continue;
    for (const [name, field] of propertiesOf(form)) {
      const given = value[name];
      if (given === undefined) continue;
      if (given !== null && isShown(field, components)) addExample(field, given);
      addExamples(field, given, components);
    }
    if (!isSchema(form.additionalProperties)) continue;
    for (const [name, given] of Object.entries(value)) {
      if (!propertiesOf(form).some(([known]) => known === name))
        addExamples(form.additionalProperties, given, components);
    }
  }
}

const hasExample = (field: Schema): boolean =>
  field.examples !== undefined || field.example !== undefined || field.const !== undefined;

function addExample(field: Schema, value: unknown): void {
  if (!hasExample(field)) field.examples = [value];
}

/** Returns whether a field shows an example itself. An object, or a list of objects, shows those of its fields. */
function isShown(field: Schema, components: Schema): boolean {
  return formsOf(field, components).every((form) => {
    if (isSchema(form.items)) return isShown(form.items, components);
    return propertiesOf(form).length === 0;
  });
}

/** Visits every field of every object within these schemas, with the place where it stands. */
function visitFields(root: Schema, place: string, visit: (field: Schema, name: string, place: string) => void): void {
  for (const [name, field] of propertiesOf(root)) {
    visit(field, name, `${place}.${name}`);
    visitFields(field, `${place}.${name}`, visit);
  }
  for (const inner of [root.items, root.additionalProperties]) if (isSchema(inner)) visitFields(inner, place, visit);
  for (const forms of [root.anyOf, root.oneOf, root.allOf]) {
    for (const form of schemasIn(forms)) visitFields(form, place, visit);
  }
}

/** Calls `visit` for every field of the document's components, bodies, responses and messages. */
function visitDocument(document: Schema, visit: (field: Schema, name: string, place: string) => void): void {
  for (const [name, schema] of Object.entries(componentsOf(document))) {
    if (isSchema(schema)) visitFields(schema, name, visit);
  }
  const contents = (value: unknown, place: string): void => {
    if (Array.isArray(value)) for (const each of value) contents(each, place);
    if (!isJsonObject(value)) return;
    const id = typeof value.operationId === "string" ? value.operationId : place;
    for (const [name, inner] of Object.entries(value)) {
      if (name === "schema" && isSchema(inner)) visitFields(inner, id, visit);
      else if (name !== "example" && name !== "examples") contents(inner, id);
    }
  };
  contents(document.paths, "paths");
  contents(document.webhooks, "webhooks");
}

export const componentsOf = (document: Schema): Schema => {
  const { components } = document;
  return isSchema(components) && isSchema(components.schemas) ? components.schemas : {};
};

/** Adds the words of common fields to those that have no words of their own. */
export function addWords(document: Schema): void {
  const components = componentsOf(document);
  visitDocument(document, (field, name) => {
    const [description, example] = FIELD_WORDS[name] ?? [];
    if (description !== undefined && !isDescribed(field, components)) field.description = description;
    if (isExemplified(field, components)) return;
    const valid = validExample(formsOf(field, components), example);
    if (valid !== undefined) field.examples = [valid];
  });
  visitParameters(document, (parameter, name) => {
    const { schema } = parameter;
    if (parameter.example !== undefined || !isSchema(schema)) return;
    const valid = schema.default ?? validExample(formsOf(schema, components), FIELD_WORDS[name]?.[1]);
    if (valid !== undefined) parameter.example = valid;
  });
}

/** Returns the example if the field may have it. Otherwise the first of its words, or true. Undefined if there is none. */
function validExample(forms: readonly Schema[], example: unknown): unknown {
  const isValid = ({ enum: words, type }: Schema): boolean =>
    Array.isArray(words)
      ? words.includes(example)
      : type === undefined || [type].flat().some((each) => typeOf(example) === (each === "integer" ? "number" : each));
  if (example !== undefined && forms.some(isValid)) return example;
  const [form] = forms.filter(({ type }) => type !== "null");
  if (Array.isArray(form?.enum)) return form.enum[0];
  if (form?.type === "boolean") return true;
  return isSchema(form?.items) && Array.isArray(form.items.enum) ? form.items.enum.slice(0, 1) : undefined;
}

function typeOf(value: unknown): string {
  if (value === null) return "null";
  if (Array.isArray(value)) return "array";
  return typeof value;
}

const isDescribed = (field: Schema, components: Schema): boolean =>
  field.description !== undefined || formsOf(field, components).some((form) => form.description !== undefined);

const isExemplified = (field: Schema, components: Schema): boolean =>
  hasExample(field) || !isShown(field, components) || formsOf(field, components).every(hasExample);

/** Calls `visit` for every parameter of the operations. */
function visitParameters(document: Schema, visit: (parameter: Schema, name: string, place: string) => void): void {
  for (const item of Object.values(isSchema(document.paths) ? document.paths : {})) {
    for (const operation of Object.values(isSchema(item) ? item : {})) {
      if (!isSchema(operation)) continue;
      for (const parameter of schemasIn(operation.parameters)) {
        if (parameter.$ref === undefined) visit(parameter, `${parameter.name}`, `${operation.operationId}`);
      }
    }
  }
}

/** Returns the places of fields without a description, or without an example. */
export function fieldsWithoutWords(document: Schema): string[] {
  const components = componentsOf(document);
  const missing: string[] = [];
  visitDocument(document, (field, _, place) => {
    if (!isDescribed(field, components)) missing.push(`${place}: no description`);
    if (!isExemplified(field, components)) missing.push(`${place}: no example`);
  });
  visitParameters(document, (parameter, name, place) => {
    if (parameter.description === undefined) missing.push(`${place}(${name}): no description`);
    if (parameter.example === undefined) missing.push(`${place}(${name}): no example`);
  });
  return missing;
}

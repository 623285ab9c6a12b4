import { isJsonObject } from "../lib/json.ts";

/** A part of the document. */
type Schema = Record<string, unknown>;

const isSchema = (value: unknown): value is Schema => isJsonObject(value);
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

const hasExample = (field: Schema): boolean =>
  field.examples !== undefined || field.example !== undefined || field.const !== undefined;

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
  for (const [name, schema] of Object.entries(collectComponents(document))) {
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

const collectComponents = (document: Schema): Schema => {
  const { components } = document;
  return isSchema(components) && isSchema(components.schemas) ? components.schemas : {};
};

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

/** Gives each parameter the words of its schema, where readers and generators look for them. */
export function describeParameters(document: Schema): void {
  const components = collectComponents(document);
  visitParameters(document, (parameter) => {
    const { schema } = parameter;
    if (!isSchema(schema)) return;
    const forms = [schema, ...formsOf(schema, components)];
    parameter.description ??= forms.find(({ description }) => description !== undefined)?.description;
    parameter.example ??= forms
      .map(({ default: standard, example, examples }) => standard ?? example ?? [examples].flat()[0])
      .find((each) => each !== undefined);
    delete schema.example;
    delete schema.examples;
  });
}

/** Returns the places of fields without a description, or without an example. */
export function fieldsWithoutWords(document: Schema): string[] {
  const components = collectComponents(document);
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

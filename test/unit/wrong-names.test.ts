import { expect, it } from "vitest";
import * as z from "zod";
import { fieldAdvice, plainName, type WrongNames } from "../../src/http/wrong-names.ts";
import { apiDocument } from "../../src/reference/api-document.ts";

interface Described {
  readonly properties?: Readonly<Record<string, object>>;
  readonly $ref?: string;
  readonly anyOf?: readonly Described[];
  readonly oneOf?: readonly Described[];
  readonly allOf?: readonly Described[];
}
// The document in the form that a client reads.
const { schemas } = JSON.parse(JSON.stringify(apiDocument())).components as { schemas: Record<string, Described> };

/** The wrong names of each schema that has some. The document has built every schema. */
const wrongNames = [...z.globalRegistry._idmap].flatMap(([id, schema]) => {
  const names = z.globalRegistry.get(schema)?.wrongNames as WrongNames | undefined;
  return names === undefined ? [] : [[id, names] as const];
});

it("finds the wrong names of schemas", () => expect(wrongNames.length).toBeGreaterThan(20));

/** The names of the fields of a schema, also through references and unions. */
function fieldsOf(schema: Described | undefined): string[] {
  if (schema === undefined) return [];
  if (schema.$ref !== undefined) return fieldsOf(schemas[schema.$ref.replace("#/components/schemas/", "")]);
  const forms = [...(schema.anyOf ?? []), ...(schema.oneOf ?? []), ...(schema.allOf ?? [])];
  return [...Object.keys(schema.properties ?? {}), ...forms.flatMap(fieldsOf)];
}

it.each(wrongNames)("suggests only existing fields of %s, and for no existing field", (id, table) => {
  const known = fieldsOf(schemas[id]);
  expect(known).not.toEqual([]);
  for (const [field, names] of Object.entries(table)) {
    // An entry that begins with `!` is the advice itself.
    if (field.startsWith("!")) continue;
    const [name = "", below] = field.split(".");
    // A name that begins with `/` is a field of the usage event, which contains the quantities.
    if (name.startsWith("/")) expect(fieldsOf(schemas.UsageEvent)).toContain(name.slice(1));
    else expect(known).toContain(name);
    if (below !== undefined) expect(fieldsOf(schemas[id]?.properties?.[name])).toContain(below);
    const otherNames = known.filter((other) => other !== field).map(plainName);
    const collisions = names.split(" ").filter((wrong) => otherNames.includes(plainName(wrong)));
    expect(collisions, field).toEqual([]);
  }
});

it("suggests the right case of a field before the table of wrong names", () => {
  const names = { externalRef: "idempotencyKey" };
  expect(fieldAdvice(names, ["externalRef"], "external-ref")).toBe("write `externalRef`");
  expect(fieldAdvice(names, ["externalRef"], "IdempotencyKey")).toBe("write `externalRef`");
  expect(fieldAdvice({}, [], "IdempotencyKey")).toBe("no fields are allowed here");
});

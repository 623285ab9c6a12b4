import { expect, it } from "vitest";
import { fieldAdvice, plainName, WRONG_FIELDS } from "../../src/http/wrong-names.ts";
import { apiDocument } from "../../src/reference/api-document.ts";

interface Described {
  readonly properties?: Readonly<Record<string, object>>;
  readonly $ref?: string;
  readonly anyOf?: readonly Described[];
  readonly oneOf?: readonly Described[];
  readonly allOf?: readonly Described[];
}
// The document as a client reads it.
const { schemas } = JSON.parse(JSON.stringify(apiDocument())).components as { schemas: Record<string, Described> };

/** The names of the fields of a schema, whatever form it has. */
function fieldsOf(schema: Described | undefined): string[] {
  if (schema === undefined) return [];
  if (schema.$ref !== undefined) return fieldsOf(schemas[schema.$ref.replace("#/components/schemas/", "")]);
  const forms = [...(schema.anyOf ?? []), ...(schema.oneOf ?? []), ...(schema.allOf ?? [])];
  return [...Object.keys(schema.properties ?? {}), ...forms.flatMap(fieldsOf)];
}

it.each(Object.entries(WRONG_FIELDS))("suggests fields of %s for unknown names", (id, table) => {
  const known = fieldsOf(schemas[id]);
  expect(known).not.toEqual([]);
  for (const [field, names] of Object.entries(table)) {
    // The whole advice, which names what it names in words.
    if (field.startsWith("!")) continue;
    const [name = "", below] = field.split(".");
    // What belongs at the top level is a field of the event that has the quantities.
    if (name.startsWith("/")) expect(fieldsOf(schemas.UsageEvent)).toContain(name.slice(1));
    else expect(known).toContain(name);
    if (below !== undefined) expect(fieldsOf(schemas[id]?.properties?.[name])).toContain(below);
    const own = known.filter((other) => other !== field).map(plainName);
    const taken = names.split(" ").filter((wrong) => own.includes(plainName(wrong)));
    expect(taken, field).toEqual([]);
  }
});

it("suggests the right case of a field before the table of wrong names", () => {
  expect(fieldAdvice("GrantCredits", ["externalRef"], "external-ref")).toBe("write `externalRef`");
  expect(fieldAdvice("GrantCredits", ["externalRef"], "IdempotencyKey")).toBe("write `externalRef`");
  expect(fieldAdvice(undefined, [], "IdempotencyKey")).toBe("no fields are taken here");
});

import type * as z from "zod";

/** A field's place: names, without the positions in lists. */
type Place = readonly string[];

/** The schemas that a schema is made of, as far as they say which fields there are. */
function partsOf(schema: z.core.$ZodType): readonly z.core.$ZodType[] {
  // zod types what a schema is by its kind in the union of them all, which is made for code such as this.
  const { def } = (schema as z.core.$ZodTypes)._zod;
  switch (def.type) {
    case "optional":
    case "nullable":
    case "default":
    case "prefault":
    case "readonly":
    case "nonoptional":
    case "catch":
      return [def.innerType];
    case "pipe":
      return [def.in];
    case "array":
      return [def.element];
    case "union":
      return def.options;
    default:
      return [];
  }
}

/** Whether the field at a place may be left out. */
export function isOptional(schema: z.core.$ZodType, place: Place): boolean {
  const [name, ...below] = place;
  const { def } = (schema as z.core.$ZodTypes)._zod;
  if (name === undefined)
    return (
      def.type === "optional" ||
      def.type === "default" ||
      def.type === "prefault" ||
      partsOf(schema).some((part) => isOptional(part, place))
    );
  if (def.type !== "object") return partsOf(schema).some((part) => isOptional(part, place));
  const field = Object.entries(def.shape).find(([own]) => own === name)?.[1];
  return field !== undefined && isOptional(field, below);
}

/** The places of all fields that a schema knows, those of the upper levels first. */
export function knownFields(schema: z.core.$ZodType, above: Place = []): readonly Place[] {
  const { def } = (schema as z.core.$ZodTypes)._zod;
  if (def.type !== "object") return partsOf(schema).flatMap((part) => knownFields(part, above));
  const fields = Object.entries(def.shape).map(([name, field]) => ({ place: [...above, name], field }));
  return [...fields.map(({ place }) => place), ...fields.flatMap(({ place, field }) => knownFields(field, place))];
}

import * as z from "zod";
import type { ZodOpenApiOverride } from "zod-openapi";
import { errorDetail } from "../http/errors.ts";
import { isJsonObject } from "../lib/json.ts";
import { errorDetailSchema } from "./error-details.ts";

const isEmptyObject = (value: unknown): boolean => isJsonObject(value) && Object.keys(value).length === 0;

/** Corrections of zod's output. */
export const correctSchema: ZodOpenApiOverride = ({ jsonSchema, zodSchema, io }) => {
  // zod leaves out the default of a transformed argument.
  if (io === "input" && zodSchema instanceof z.ZodDefault) jsonSchema.default ??= zodSchema.def.defaultValue;
  const { additionalProperties, properties } = jsonSchema;
  // zod writes "any other field" as an empty schema, and no known ones as an empty list, which some generators misread.
  if (isEmptyObject(additionalProperties)) jsonSchema.additionalProperties = true;
  if (isEmptyObject(properties) && jsonSchema.additionalProperties === true) delete jsonSchema.properties;
  if (zodSchema === errorDetail) {
    for (const name of Object.keys(jsonSchema)) Reflect.deleteProperty(jsonSchema, name);
    Object.assign(jsonSchema, errorDetailSchema);
  }
};

const hasDefault = (field: unknown): field is { default?: unknown; description?: string } =>
  isJsonObject(field) && "default" in field;

/** Tells the default of a body's field in words: some generators make a field with a default one that must be sent. */
export function describeDefaults(schema: unknown): void {
  if (!isJsonObject(schema) || !isJsonObject(schema.properties)) return;
  for (const field of Object.values(schema.properties)) {
    if (!hasDefault(field)) continue;
    const value: unknown = field.default;
    delete field.default;
    // An empty object or list is what is taken where nothing is sent.
    if (typeof value === "object") continue;
    field.description = `${field.description ?? ""} Default: \`${String(value)}\`.`.trim();
  }
}

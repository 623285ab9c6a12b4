import { isJsonObject, type JsonObject, ownValue } from "../../lib/json.ts";

/** Returns the first of these members that is present and not null. */
export function firstPresent(object: JsonObject, ...names: readonly string[]): unknown {
  for (const name of names) {
    const value = ownValue(object, name);
    if (value !== undefined && value !== null) return value;
  }
  return undefined;
}

/** Returns the member `name` if it is an object, otherwise an object without members. */
export function objectIn(object: JsonObject, name: string): JsonObject {
  const value = ownValue(object, name);
  return isJsonObject(value) ? value : {};
}

/** Returns the key beside an event or a batch, otherwise the key in its properties. Null when there is none. */
export function keyOf(object: JsonObject): string | null {
  const key = firstPresent(object, "api_key", "token", "$token") ?? ownValue(objectIn(object, "properties"), "token");
  return typeof key === "string" ? key : null;
}

import { type JsonObject, own } from "../lib/json.ts";
import type { CapturedEvent } from "./event.ts";
import { propertiesBytesMax } from "./schemas.ts";

/** Whether a person may hold these properties. */
export function propertiesFit(properties: JsonObject): boolean {
  return new TextEncoder().encode(JSON.stringify(properties)).length <= propertiesBytesMax;
}

/**
 * A person's properties after an event's `$set_once`, `$set` and `$unset`, in this order, as PostHog applies them;
 * null when they stay as they are. Spread and `Object.fromEntries` keep a key named `__proto__` the key that it is.
 */
export function changedProperties(
  properties: JsonObject,
  { set, setOnce, unset }: Pick<CapturedEvent, "set" | "setOnce" | "unset">,
): JsonObject | "too large" | null {
  const isNew = (key: string) => !Object.hasOwn(properties, key);
  const isOther = ([key, value]: [string, unknown]) =>
    isNew(key) || JSON.stringify(own(properties, key)) !== JSON.stringify(value);
  const isChanged =
    Object.keys(setOnce).some(isNew) || Object.entries(set).some(isOther) || unset.some((key) => !isNew(key));
  if (!isChanged) return null;
  const removed = new Set(unset);
  const changed = Object.fromEntries(
    Object.entries({ ...setOnce, ...properties, ...set }).filter(([key]) => !removed.has(key)),
  );
  return propertiesFit(changed) ? changed : "too large";
}

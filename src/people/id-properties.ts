import { type JsonObject, own } from "../lib/json.ts";
import { propertiesBytesMax } from "./schemas.ts";

const encoder = new TextEncoder();
const bytesOf = (value: unknown): number => encoder.encode(JSON.stringify(value)).length;
const memberBytes = (key: string, value: unknown): number => bytesOf(key) + bytesOf(value) + 2;

/**
 * Copies of properties that this request may change in place, with their bytes as JSON. So the cost of an event depends on its
 * own size, not on the size of its id's properties.
 */
const drafts = new WeakMap<JsonObject, number>();

/** A copy without a prototype, so that `__proto__` is an ordinary key. */
function draftOf(properties: JsonObject): { readonly draft: Record<string, unknown>; readonly bytes: number } {
  const bytes = drafts.get(properties);
  // `drafts` has only objects that were created here.
  if (bytes !== undefined) return { draft: properties as Record<string, unknown>, bytes };
  const draft: Record<string, unknown> = Object.assign(Object.create(null), properties);
  return { draft, bytes: bytesOf(draft) };
}

/** The changes of an id's properties by one event. */
export interface PropertyChanges {
  readonly set: JsonObject;
  readonly setOnce: JsonObject;
  readonly unset: readonly string[];
}

/** The keys to put and to remove: `$set_once`, `$set` and `$unset` in this order, as PostHog applies them. */
function differences(properties: JsonObject, { set, setOnce, unset }: PropertyChanges) {
  const puts = new Map(Object.entries(setOnce).filter(([key]) => !Object.hasOwn(properties, key)));
  for (const [key, value] of Object.entries(set)) {
    const isSame = Object.hasOwn(properties, key) && JSON.stringify(own(properties, key)) === JSON.stringify(value);
    if (!isSame) puts.set(key, value);
  }
  for (const key of unset) puts.delete(key);
  return { puts, removed: [...new Set(unset)].filter((key) => Object.hasOwn(properties, key)) };
}

/**
 * An id's properties after an event; null when they do not change. An object that it returned before is changed in place.
 */
export function changedProperties(properties: JsonObject, changes: PropertyChanges): JsonObject | "too large" | null {
  const { puts, removed } = differences(properties, changes);
  if (puts.size === 0 && removed.length === 0) return null;
  const { draft, bytes } = draftOf(properties);
  const bytesOfKey = (key: string) => (Object.hasOwn(draft, key) ? memberBytes(key, draft[key]) : 0);
  let growth = 0;
  for (const [key, value] of puts) growth += memberBytes(key, value) - bytesOfKey(key);
  for (const key of removed) growth -= bytesOfKey(key);
  if (growth > 0 && bytes + growth > propertiesBytesMax) return "too large";
  for (const [key, value] of puts) draft[key] = value;
  for (const key of removed) delete draft[key];
  drafts.set(draft, bytes + growth);
  return draft;
}

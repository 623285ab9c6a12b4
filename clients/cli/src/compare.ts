import type { Item } from "./config-file.ts";

/** Returns JSON whose fields are in the order of their names, so that equal values have equal texts. */
export function canonical(value: unknown): string {
  return JSON.stringify(value, (_name, inner) =>
    typeof inner === "object" && inner !== null && !Array.isArray(inner)
      ? Object.fromEntries(Object.entries(inner).sort(([a], [b]) => (a < b ? -1 : 1)))
      : inner,
  );
}

/** One field that differs, with both values. */
export interface Difference {
  readonly field: string;
  readonly before: unknown;
  readonly after: unknown;
}

/** Returns the fields that differ. A field that the file leaves out has its default; one without a known default is not looked at. */
export function differences(before: Item, after: Item, defaults: Item): Difference[] {
  const names = new Set([...Object.keys(after), ...Object.keys(before).filter((name) => name in defaults)]);
  return [...names].flatMap((field) => {
    const [was, willBe] = [before[field] ?? defaults[field] ?? null, after[field] ?? defaults[field] ?? null];
    return canonical(was) === canonical(willBe) ? [] : [{ field, before: was, after: willBe }];
  });
}

/** Leaves out fields that are as by default. */
export const withoutDefaults = (item: Item, defaults: Item): Item =>
  Object.fromEntries(
    Object.entries(item).filter(
      ([name, value]) => !(name in defaults) || canonical(value) !== canonical(defaults[name]),
    ),
  );

/** Leaves out some fields. */
export const without = (item: Item, names: readonly string[]): Item =>
  Object.fromEntries(Object.entries(item).filter(([name]) => !names.includes(name)));

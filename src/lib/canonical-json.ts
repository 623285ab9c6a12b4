/**
 * One text for every way to write the same JSON value: keys sorted by code unit, members that are undefined left out.
 * Recursive, so what comes from a caller is measured by `isNestedDeeperThan` first.
 */
export function canonicalJson(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join(",")}]`;
  if (typeof value !== "object" || value === null) return JSON.stringify(value) ?? "null";
  const members = Object.entries(value)
    .filter(([, member]) => member !== undefined)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([key, member]) => `${JSON.stringify(key)}:${canonicalJson(member)}`);
  return `{${members.join(",")}}`;
}

/** Whether every number is finite: 1e999 reads as infinity, and would be written back as null. Recursive likewise. */
export function isFiniteJson(value: unknown): boolean {
  if (typeof value === "number") return Number.isFinite(value);
  return typeof value !== "object" || value === null || Object.values(value).every(isFiniteJson);
}

/** What two pack names are compared by (C7): NFKC, then lower case. `STRASSE` and `straße` stay two names. */
export function nameKey(name: string): string {
  return name.normalize("NFKC").toLowerCase();
}

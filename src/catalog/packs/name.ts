/** The key by which pack names are compared (C7): NFKC, then lower case. `STRASSE` and `straße` are two names. */
export function nameKey(name: string): string {
  return name.normalize("NFKC").toLowerCase();
}

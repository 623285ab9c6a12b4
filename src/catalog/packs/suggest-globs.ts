const SEPARATORS = /[.:/_-]/g;
const PREFIXES_MAX = 10;

/** Globs that match a name, narrowest first: the name itself, prefixes up to one of the first separators, and `*`. */
export function suggestGlobs(name: string): string[] {
  const prefixes: string[] = [];
  for (const { index } of name.matchAll(SEPARATORS)) {
    if (prefixes.length === PREFIXES_MAX) break;
    prefixes.push(`${name.slice(0, index + 1)}*`);
  }
  return [...new Set([name, ...prefixes.toReversed(), "*"])];
}

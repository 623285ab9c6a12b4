const SEPARATORS = /[.:/_-]/g;

/** Globs that match a name, narrowest first: the name itself, each prefix up to a separator, and `*`. */
export function suggestGlobs(name: string): string[] {
  const prefixes = [...name.matchAll(SEPARATORS)].map((match) => `${name.slice(0, match.index + 1)}*`);
  return [...new Set([name, ...prefixes.toReversed(), "*"])];
}

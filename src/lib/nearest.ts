/** Returns how many characters must be added, removed or replaced to turn one text into the other (Levenshtein distance). */
function distance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, at) => at);
  for (const [i, character] of [...a].entries()) {
    const next = [i + 1];
    for (let j = 0; j < b.length; j++) {
      const [above = 0, diagonal = 0, left = 0] = [row[j + 1], row[j], next[j]];
      next.push(Math.min(above + 1, left + 1, diagonal + (character === b[j] ? 0 : 1)));
    }
    row = next;
  }
  return row.at(-1) ?? 0;
}

/** Returns at most `count` of `names` that are similar to `name`, the most similar first. Ignores case. */
export function nearest(name: string, names: readonly string[], count: number): string[] {
  const meant = name.toLowerCase();
  return names
    .map((one) => ({ one, far: distance(meant, one.toLowerCase()) }))
    .filter(({ one, far }) => far <= Math.max(2, one.length / 3))
    .sort((a, b) => a.far - b.far)
    .slice(0, count)
    .map(({ one }) => one);
}

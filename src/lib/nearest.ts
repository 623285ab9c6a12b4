/** How many characters have to be added, removed or exchanged to make one text of another. */
function editDistance(one: string, other: string): number {
  let row = Array.from({ length: other.length + 1 }, (_, index) => index);
  for (let i = 0; i < one.length; i++) {
    const next = [i + 1];
    for (let j = 0; j < other.length; j++) {
      const exchanged = (row[j] ?? 0) + (one[i] === other[j] ? 0 : 1);
      next.push(Math.min(exchanged, (row[j + 1] ?? 0) + 1, (next[j] ?? 0) + 1));
    }
    row = next;
  }
  return row[other.length] ?? 0;
}

/** A name without case and separators: `user_id`, `User-Id` and `userId` are alike. */
export const plainName = (name: string): string => name.toLowerCase().replace(/[^\p{L}\p{N}]/gu, "");

const CHARACTERS_MAX = 60;

/**
 * How far a text is from a name that may be meant: 0 when they differ in case and separators alone, null when they have
 * little in common. A long text is never near, so that it costs nothing.
 */
export function nearness(text: string, name: string): number | null {
  if (text.length > CHARACTERS_MAX) return null;
  const [one, other] = [plainName(text), plainName(name)];
  // People seldom mistype the first letter, and `rs256` does not mean `hs256`.
  if (one[0] !== other[0]) return null;
  const distance = editDistance(one, other);
  return distance <= Math.min(2, Math.floor(Math.max(one.length, other.length) / 3)) ? distance : null;
}
/** The name that `text` most likely means; null when it is near to none. */
export function nearest(text: string, names: Iterable<string>): string | null {
  let best: { name: string; distance: number } | null = null;
  for (const name of names) {
    const distance = nearness(text, name);
    if (distance !== null && (best === null || distance < best.distance)) best = { name, distance };
  }
  return best?.name ?? null;
}

/** Returns how many code points a text has. */
export const codePoints = (text: string): number => {
  let count = 0;
  for (const _ of text) count++;
  return count;
};

/** Returns the first characters of a text, whole: a character is a code point, which may take two units. */
export const beginningOf = (text: string, characters: number): string =>
  [...text.slice(0, 2 * characters)].slice(0, characters).join("");

/** A surrogate stands for a code point above those of all other code units. */
const weightOf = (codeUnit: number): number =>
  codeUnit >= 0xd800 && codeUnit < 0xe000 ? codeUnit + 0x10000 : codeUnit;

/** Compares well-formed texts by their code points, as SQLite does. JavaScript's own comparison goes by UTF-16. */
export function byCodePoints(a: string, b: string): number {
  const length = Math.min(a.length, b.length);
  for (let index = 0; index < length; index++) {
    const difference = weightOf(a.charCodeAt(index)) - weightOf(b.charCodeAt(index));
    if (difference !== 0) return difference;
  }
  return a.length - b.length;
}

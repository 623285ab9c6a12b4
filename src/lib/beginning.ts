/** Returns the first characters of a text, whole: a character is a code point, which may take two units. */
export const beginningOf = (text: string, characters: number): string =>
  [...text.slice(0, 2 * characters)].slice(0, characters).join("");

/** Stands in the page, as it is made, for the origin that it will be read at. */
export const ORIGIN_WRITTEN = "https://origin.invalid";

/** The page for a reader at `origin`, whose host may have characters that HTML must not see as its own. */
export function atOrigin(page: string, origin: string): string {
  const escaped = origin.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
  return page.replaceAll(ORIGIN_WRITTEN, () => escaped);
}

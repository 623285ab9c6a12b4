/** In the generated page, a placeholder for the origin at which it is read. */
export const ORIGIN_PLACEHOLDER = "https://origin.invalid";

/** The page for a reader at `origin`. The host may have characters with a meaning in HTML, so they are escaped. */
export function atOrigin(page: string, origin: string): string {
  const escaped = origin.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
  return page.replaceAll(ORIGIN_PLACEHOLDER, () => escaped);
}

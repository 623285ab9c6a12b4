declare global {
  /**
   * Whether texts, examples and schemas of responses are there: true for the reference and the tests, false in the Worker, whose
   * bundle leaves them out (`[define]` in wrangler.toml). The type says true, because nothing else reads them.
   */
  const WITH_REFERENCE: true;
}

/**
 * Returns the words of a field, for `.meta()`. In the Worker it does nothing, and the bundler removes the texts. An object, or a
 * list of objects, needs no example, because its fields have theirs.
 */
export function words(description: string, example?: unknown): { description: string; example?: unknown } {
  if (WITH_REFERENCE) return { description, ...(example === undefined ? {} : { example }) };
  // Zod's `.meta(undefined)` adds nothing.
  return undefined as never;
}

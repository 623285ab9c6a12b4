/** Throws if something is false that must always be true. For what a caller can cause, throw a PurserError instead. */
export function assert(condition: unknown, message: string): asserts condition {
  if (!condition) throw new Error(`Assertion failed: ${message}`);
}

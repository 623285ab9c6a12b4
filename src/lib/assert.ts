/** Throws if `condition` is false: a bug in Purser. Throw a PurserError instead for a mistake that a caller can make. */
export function assert(condition: unknown, message: string): asserts condition {
  if (!condition) throw new Error(`Assertion failed: ${message}`);
}

/** States what cannot be otherwise. What a caller can cause is refused with a PurserError instead. */
export function assert(condition: unknown, message: string): asserts condition {
  if (!condition) throw new Error(`Assertion failed: ${message}`);
}

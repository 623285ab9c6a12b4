/** States what cannot be otherwise. What a caller can cause is refused with a PurserError instead. */
export function assert(condition: unknown, message: string): asserts condition {
  if (!condition) throw new Error(`Assertion failed: ${message}`);
}

/** For the end of an exhaustive choice: a value that the types exclude. */
export function unreachable(value: never): never {
  throw new Error(`Unexpected value of type ${typeof value}`);
}

/**
 * Returns a function that makes a value once for each object, and forgets it with the object. `Runtime.isolate` is such an object,
 * so each isolate, and each test, has its own value.
 */
export function rememberPerObject<Owner extends object, Value>(make: (owner: Owner) => Value): (owner: Owner) => Value {
  const values = new WeakMap<Owner, Value>();
  return (owner) => {
    const value = values.get(owner) ?? make(owner);
    values.set(owner, value);
    return value;
  };
}

/** Returns a function that caches up to `max` results of `make`. Null is not cached. */
export function rememberUpTo<Result>(max: number, make: (text: string) => Result): (text: string) => Result {
  const known = new Map<string, Result>();
  return (text) => {
    const found = known.get(text) ?? make(text);
    if (found === null || known.has(text)) return found;
    if (known.size >= max) known.clear();
    known.set(text, found);
    return found;
  };
}

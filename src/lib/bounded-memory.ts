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

/** Returns a function that caches up to `max` results of `make`. It does not cache null. */
export function rememberUpTo<Result>(max: number, make: (text: string) => Result): (text: string) => Result {
  const results = new Map<string, Result>();
  return (text) => {
    const result = results.get(text) ?? make(text);
    if (result === null || results.has(text)) return result;
    if (results.size >= max) results.clear();
    results.set(text, result);
    return result;
  };
}

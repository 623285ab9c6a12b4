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

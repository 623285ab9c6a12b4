/** A function of a text that remembers its latest results, at most `max`. Null is not remembered. */
export function remember<Result>(max: number, make: (text: string) => Result): (text: string) => Result {
  const known = new Map<string, Result>();
  return (text) => {
    const found = known.get(text) ?? make(text);
    if (found === null || known.has(text)) return found;
    if (known.size >= max) known.clear();
    known.set(text, found);
    return found;
  };
}

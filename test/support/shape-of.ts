const MOMENT = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;

/** A text that may be a name of the contract (a code, a status, a unit) stays whole, of an id its prefix, of a moment its form. */
function shapeOfText(text: string): string {
  if (/^[a-z_.]{0,40}$/.test(text)) return `"${text}"`;
  if (MOMENT.test(text)) return "moment";
  return `text ${/^[a-z]{2,4}_/.exec(text)?.[0] ?? ""}`;
}

function shapeOfNumber(value: number): string {
  if (value === 0) return "0";
  return `${value < 0 ? "-" : ""}${Number.isSafeInteger(value) ? "integer" : "number"}`;
}

/** The names of a JSON value's fields and the kinds of its values. Two values of one shape hardly differ to a JSON Schema. */
export function shapeOf(value: unknown): string {
  if (typeof value === "string") return shapeOfText(value);
  if (typeof value === "number") return shapeOfNumber(value);
  if (typeof value !== "object" || value === null) return String(value);
  if (Array.isArray(value)) return `[${[...new Set(value.map(shapeOf))].join()}]`;
  const fields = Object.entries(value).map(([name, inner]) => `${name}:${shapeOf(inner)}`);
  return `{${fields.join()}}`;
}

/** Returns the value with one element of each shape in each of its lists: a list of 10,000 elements takes a validator seconds. */
export function oneOfEachShape(value: unknown): unknown {
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) {
    const shapes = new Map<string, unknown>();
    for (const element of value) {
      const shape = shapeOf(element);
      if (!shapes.has(shape)) shapes.set(shape, element);
    }
    return [...shapes.values()].map(oneOfEachShape);
  }
  return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, oneOfEachShape(inner)]));
}

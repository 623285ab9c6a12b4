export type Fields = Readonly<Record<string, unknown>>;

/** The description of an operation in the generated tables. */
export interface Described {
  readonly method: string;
  readonly path: string;
  /** The accepted kinds of keys, separated by spaces: `sk`, `pk`, `rk` and `admin`. Empty if the operation needs no key. */
  readonly keys: string;
  /** The field of the response that is a page's list. */
  readonly list?: string;
  readonly takesUserToken?: boolean;
  /** Whether the response is not JSON. */
  readonly answersText?: boolean;
  /** Set for a POST whose repeat has no further effect. With a field: if the field is the same. The client makes it if absent. */
  readonly idempotent?: true | { readonly field: string; readonly prefix?: string };
}

export interface Request extends Pick<Described, "keys" | "takesUserToken" | "answersText"> {
  readonly operation: string;
  readonly method: string;
  readonly path: string;
  readonly body: string | null;
  /** Whether a repeated request has no further effect. */
  readonly isRepeatable: boolean;
}

function withId(fields: Fields, { field, prefix = "" }: { readonly field: string; readonly prefix?: string }): Fields {
  return fields[field] === undefined ? { ...fields, [field]: prefix + crypto.randomUUID() } : fields;
}

/** Throws `TypeError` for a number that JSON cannot carry: a BigInt, NaN or an infinity, which JSON would turn into null. */
export function assertNumbers(operation: string, value: unknown, path = ""): void {
  if (typeof value === "bigint")
    throw new TypeError(`${operation}: ${path} is a BigInt. Send a number: Number(value).`);
  if (typeof value === "number" && !Number.isFinite(value))
    throw new TypeError(`${operation}: ${path} is ${value}. Send a finite number.`);
  if (typeof value !== "object" || value === null) return;
  const isList = Array.isArray(value);
  for (const [name, inner] of Object.entries(value)) {
    const innerPath = isList ? `${path}[${name}]` : `${path}.${name}`;
    assertNumbers(operation, inner, innerPath.replace(/^\./, ""));
  }
}

const asText = (value: unknown): string => (value instanceof Date ? value.toISOString() : String(value));

/** Returns the request of an operation. It is built once for a call, so that every retry has the same ids. */
export function requestOf(name: string, described: Described, input: Fields | readonly Fields[] = {}): Request {
  const { method, path: template, list: _list, idempotent, ...rest } = described;
  assertNumbers(name, input);
  const id = idempotent === true ? undefined : idempotent;
  const isRepeatable = /^(GET|PUT|DELETE)$/.test(method) || idempotent !== undefined;
  const request = { ...rest, operation: name, method, isRepeatable };
  if (Array.isArray(input)) {
    const body = id === undefined ? input : input.map((each) => withId(each, id));
    return { ...request, path: template, body: JSON.stringify(body) };
  }
  // `Array.isArray` does not narrow readonly lists.
  const fields = input as Fields;
  const remaining = new Map(Object.entries(id === undefined ? fields : withId(fields, id)));
  const path = template.replace(/\{(\w+)\}/g, (_match, field: string) => {
    const given = remaining.get(field);
    const value = typeof given === "number" ? String(given) : given;
    // A URL would treat one or two dots as a step in its path.
    if (typeof value !== "string" || /^\.{0,2}$/.test(value)) throw new TypeError(`${name} needs ${field}.`);
    remaining.delete(field);
    return encodeURIComponent(value);
  });
  const entries = [...remaining].filter(([, value]) => value !== undefined);
  if (method === "GET" || method === "DELETE") {
    const query = new URLSearchParams(entries.map(([field, value]) => [field, asText(value)]));
    return { ...request, path: entries.length === 0 ? path : `${path}?${query}`, body: null };
  }
  return { ...request, path, body: JSON.stringify(Object.fromEntries(entries)) };
}

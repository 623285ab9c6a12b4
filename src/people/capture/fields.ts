import { type JsonBytes, Names, type Span } from "../../lib/json-bytes.ts";

/** The positions of members' values, by name. If a name occurs twice, the last counts, as for JSON.parse. */
export type EventFields = ReadonlyMap<string, Span>;

interface ReadFields {
  readonly fields: EventFields;
  readonly end: number;
  /** The levels of objects and lists in the object, itself included. */
  readonly levels: number;
  /** Whether one of the names occurs twice. */
  readonly isRepeated: boolean;
}

/** The members of the object at `start` with one of `names`. `pass` skips a value, and returns the position after it. */
export function readFields(
  json: JsonBytes,
  start: number,
  names: Names,
  pass: (name: string, valueStart: number) => number = (_name, valueStart) => json.skip(valueStart),
): ReadFields {
  const fields = new Map<string, Span>();
  let [levels, isRepeated] = [0, false];
  const end = json.members(start, (nameSpan, valueStart) => {
    const name = json.find(names, nameSpan);
    const valueEnd = name === undefined ? json.skip(valueStart) : pass(name, valueStart);
    if (name !== undefined) {
      isRepeated ||= fields.has(name);
      fields.set(name, { start: valueStart, end: valueEnd });
    }
    if (json.depth > levels) levels = json.depth;
    return valueEnd;
  });
  return { fields, end, levels: levels + 1, isRepeated };
}

/** The first of these members that is present and not null. */
export function firstPresent(json: JsonBytes, fields: EventFields, ...names: readonly string[]): Span | undefined {
  for (const name of names) {
    const span = fields.get(name);
    if (span !== undefined && !json.isNull(span)) return span;
  }
  return undefined;
}

export interface ReadEventFields extends ReadFields {
  /** The members of `properties` with one of the inner names. Null when it is not an object. */
  readonly properties: ReadFields | null;
}

/** Like `readFields`, for an event: also the members of its `properties` that have one of `innerNames`. */
export function readEventFields(
  json: JsonBytes,
  start: number,
  names: Names,
  innerNames: Names,
  pass: (name: string, valueStart: number) => number = (_name, valueStart) => json.skip(valueStart),
): ReadEventFields {
  const inner: ReadFields[] = [];
  const read = readFields(json, start, names, (name, valueStart) => {
    if (name !== "properties" || json.kindAt(valueStart) !== "object") return pass(name, valueStart);
    const properties = readFields(json, valueStart, innerNames);
    inner.push(properties);
    return properties.end;
  });
  const last = read.fields.get("properties");
  const isObject = last !== undefined && json.kindAt(last.start) === "object";
  return { ...read, properties: (isObject ? inner.at(-1) : null) ?? null };
}

const KEY_BYTES_MAX = 1_000;
const KEY_NAMES = ["api_key", "token", "$token"] as const;
/** The names that `keyOf` needs in addition to others, on the top level and within the properties. */
export const namesWithKey = (...names: readonly string[]): Names => new Names([...KEY_NAMES, "properties", ...names]);
export const keyInProperties = new Names(["token"]);

/** The text of a key. Null when the value is no string. */
export function keyAt(json: JsonBytes, span: Span): string | null {
  if (json.kindAt(span.start) !== "string") return null;
  // Longer than any key.
  return span.end - span.start > KEY_BYTES_MAX ? "" : json.string(span);
}

/** The key beside an event or a batch, else the one in its properties. Null when there is none. */
export function keyOf(json: JsonBytes, { fields, properties }: ReadEventFields): string | null {
  const span = firstPresent(json, fields, ...KEY_NAMES) ?? properties?.fields.get("token");
  return span === undefined ? null : keyAt(json, span);
}

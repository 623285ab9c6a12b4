import { type JsonBytes, Names, type Span } from "../../lib/json-bytes.ts";

/** The positions of members' values, by name. If a name occurs twice, the last value counts, as in JSON.parse. */
export type EventFields = ReadonlyMap<string, Span>;

interface ReadFields {
  readonly fields: EventFields;
  readonly end: number;
  /** How many levels of objects and lists the object has, including itself. */
  readonly levels: number;
  /** Whether one of the names occurs twice. */
  readonly isRepeated: boolean;
}

/** Finds the members of the object at `start` with one of `names`. `skipValue` returns the position after a value. */
export function readFields(
  json: JsonBytes,
  start: number,
  names: Names,
  skipValue: (name: string, valueStart: number) => number = (_name, valueStart) => json.skip(valueStart),
): ReadFields {
  const fields = new Map<string, Span>();
  let [levels, isRepeated] = [0, false];
  const end = json.members(start, (nameSpan, valueStart) => {
    const name = json.find(names, nameSpan);
    const valueEnd = name === undefined ? json.skip(valueStart) : skipValue(name, valueStart);
    if (name !== undefined) {
      isRepeated ||= fields.has(name);
      fields.set(name, { start: valueStart, end: valueEnd });
    }
    if (json.depth > levels) levels = json.depth;
    return valueEnd;
  });
  return { fields, end, levels: levels + 1, isRepeated };
}

/** Returns the first of these members that is present and not null. */
export function firstPresent(json: JsonBytes, fields: EventFields, ...names: readonly string[]): Span | undefined {
  for (const name of names) {
    const span = fields.get(name);
    if (span !== undefined && !json.isNull(span)) return span;
  }
  return undefined;
}

export interface ReadEventFields extends ReadFields {
  /** The members of `properties` with one of the inner names. Null when `properties` is not an object. */
  readonly properties: ReadFields | null;
}

/** Does the same as `readFields`, and also finds the members of `properties` with one of `innerNames`. */
export function readEventFields(
  json: JsonBytes,
  start: number,
  names: Names,
  innerNames: Names,
  skipValue: (name: string, valueStart: number) => number = (_name, valueStart) => json.skip(valueStart),
): ReadEventFields {
  const readProperties: ReadFields[] = [];
  const read = readFields(json, start, names, (name, valueStart) => {
    if (name !== "properties" || json.kindAt(valueStart) !== "object") return skipValue(name, valueStart);
    const properties = readFields(json, valueStart, innerNames);
    readProperties.push(properties);
    return properties.end;
  });
  const last = read.fields.get("properties");
  const isObject = last !== undefined && json.kindAt(last.start) === "object";
  return { ...read, properties: (isObject ? readProperties.at(-1) : null) ?? null };
}

const KEY_BYTES_MAX = 1_000;
const KEY_NAMES = ["api_key", "token", "$token"] as const;
/** Adds the names that `keyOf` needs at the top level of an event or a batch. */
export const namesWithKey = (...names: readonly string[]): Names => new Names([...KEY_NAMES, "properties", ...names]);
/** The names that `keyOf` needs in the properties. */
export const keyInProperties = new Names(["token"]);

/** Returns the text of a key. Null when the value is not a string. */
function keyAt(json: JsonBytes, span: Span): string | null {
  if (json.kindAt(span.start) !== "string") return null;
  // The text is longer than any key.
  return span.end - span.start > KEY_BYTES_MAX ? "" : json.string(span);
}

/** Returns the key beside an event or a batch, otherwise the key in its properties. Null when there is none. */
export function keyOf(json: JsonBytes, { fields, properties }: ReadEventFields): string | null {
  const span = firstPresent(json, fields, ...KEY_NAMES) ?? properties?.fields.get("token");
  return span === undefined ? null : keyAt(json, span);
}

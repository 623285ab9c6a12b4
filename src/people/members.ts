import { utf8 } from "../lib/encoding.ts";
import { JsonBytes } from "../lib/json-bytes.ts";

/** The names and the JSON texts of an object's members, one after another. They are read when they are asked for. */
export type Members = (visit: (name: string, text: string) => void) => void;

/** The members of the object that begins there. Null when there are none, or it is not an object. */
export function membersAt(json: JsonBytes, start: number): Members | null {
  if (json.kindAt(start) !== "object" || json.isEmptyAt(start)) return null;
  return (visit) => {
    json.members(start, (name, valueStart) => {
      const end = json.skip(valueStart);
      visit(json.string(name), json.text({ start: valueStart, end }));
      return end;
    });
  };
}

/** The members of an object's JSON text. */
export function membersOf(text: string): Members | null {
  const json = new JsonBytes(utf8(text));
  return membersAt(json, json.space(0));
}

/** The strings of a list as the names of members. Null when there are none. */
export function namesAt(json: JsonBytes, start: number): Members | null {
  if (json.kindAt(start) !== "list" || json.isEmptyAt(start)) return null;
  return (visit) => {
    json.elements(start, (at) => {
      const end = json.skip(at);
      if (json.kindAt(at) === "string") visit(json.string({ start: at, end }), "null");
      return end;
    });
  };
}

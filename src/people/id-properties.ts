import { assert } from "../errors.ts";
import { utf8, utf8Length } from "../lib/encoding.ts";
import { JsonBytes } from "../lib/json-bytes.ts";

/** Calls `visit` with the name and the JSON text of each member of an object, which it reads one after another. */
export type Members = (visit: (name: string, text: string) => void) => void;

/** Returns the members of the object at `start`. Null when it has none, or is not an object. */
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

/** Returns the members of an object's JSON text. */
export function membersOf(text: string): Members | null {
  const json = new JsonBytes(utf8(text));
  return membersAt(json, json.skipSpace(0));
}

/** Returns the strings of the list at `start`, as names of members. Null when there are none. */
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

/** The most bytes and names of an id's properties, those of secret keys and those of other keys each for itself (L1). */
export const ID_PROPERTIES_BYTES_MAX = 64 * 1024;
export const ID_PROPERTIES_NAMES_MAX = 1_000;

/** The changes that an event makes to an id's properties. Null for none. */
export interface PropertyChanges {
  readonly set: Members | null;
  readonly setOnce: Members | null;
  /** Only its names are used. */
  readonly unset: Members | null;
  /**
   * The JSON texts of `set`, `setOnce` and `unset`, as sent. Empty when there are none, null when they are too long to
   * remember.
   */
  readonly changes: string | null;
}

export function changesProperties({ changes }: PropertyChanges): boolean {
  return changes !== "";
}

/**
 * The properties of an id as JSON texts by name, to which one event after another is applied. The cost of an event depends on its
 * own size, not on the size of its id's properties.
 */
export class IdProperties {
  readonly #texts = new Map<string, string>();
  /** The bytes of all members, with quotes, colons and commas. */
  #bytes = 0;
  isChanged = false;

  readonly #stored: string | null;

  /** `stored`: the JSON text of an object; null when nothing is stored. */
  constructor(stored: string | null) {
    this.#stored = stored;
    if (stored === null) return;
    membersOf(stored)?.((name, text) => {
      this.#texts.set(name, text);
      this.#bytes += nameBytes(name) + utf8Length(text);
    });
  }

  /**
   * Applies `$unset`, `$set_once` and `$set` of an event. As in PostHog, a name that the event unsets is not set. Returns
   * false when a property was not set because the id's properties would exceed their limits.
   */
  apply({ set, setOnce, unset }: Pick<PropertyChanges, "set" | "setOnce" | "unset">): boolean {
    const removed = new Set<string>();
    unset?.((name) => {
      removed.add(name);
      this.#remove(name);
    });
    let areAllSet = true;
    setOnce?.((name, text) => {
      if (!removed.has(name) && !this.#texts.has(name) && !this.#put(name, text)) areAllSet = false;
    });
    set?.((name, text) => {
      if (!removed.has(name) && !this.#put(name, text)) areAllSet = false;
    });
    return areAllSet;
  }

  /** Returns whether the same changes would have no effect now. */
  isSettled({ set, setOnce, unset }: PropertyChanges): boolean {
    const removed = new Set<string>();
    unset?.((name) => removed.add(name));
    let isSettled = ![...removed].some((name) => this.#texts.has(name));
    setOnce?.((name) => {
      if (!removed.has(name) && !this.#texts.has(name)) isSettled = false;
    });
    set?.((name, text) => {
      if (!removed.has(name) && this.#texts.get(name) !== text) isSettled = false;
    });
    return isSettled;
  }

  /** The size of the JSON to store. */
  get storedBytes(): number {
    return this.isChanged ? this.#textBytes : utf8Length(this.#stored ?? "");
  }

  /** The bytes of `text`. The last member has no comma. */
  get #textBytes(): number {
    return this.#texts.size === 0 ? 2 : this.#bytes + 1;
  }

  get text(): string {
    return `{${Array.from(this.#texts, ([name, text]) => `${quoted(name)}:${text}`).join()}}`;
  }

  #put(name: string, text: string): boolean {
    const before = this.#texts.get(name);
    if (before === text) return true;
    const growth = utf8Length(text) - (before === undefined ? -nameBytes(name) : utf8Length(before));
    if (growth > 0 && this.#bytes + growth > ID_PROPERTIES_BYTES_MAX) return false;
    if (before === undefined && this.#texts.size >= ID_PROPERTIES_NAMES_MAX) return false;
    this.#texts.set(name, text);
    this.#bytes += growth;
    this.isChanged = true;
    return true;
  }

  #remove(name: string): void {
    const before = this.#texts.get(name);
    if (before === undefined) return;
    this.#texts.delete(name);
    this.#bytes -= utf8Length(before) + nameBytes(name);
    assert(this.#bytes >= 0, "the bytes of members are counted");
    this.isChanged = true;
  }
}

/** The bytes of a name with its quotes, colon and comma. */
const nameBytes = (name: string): number => utf8Length(quoted(name)) + 2;

/** Returns the same as JSON.stringify, which is slow for short texts. */
const quoted = (name: string): string => (PLAIN_NAME.test(name) ? `"${name}"` : JSON.stringify(name));
const PLAIN_NAME = /^[\w $.-]*$/;

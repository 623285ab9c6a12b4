import { assert } from "../errors.ts";
import { utf8Length } from "../lib/encoding.ts";
import { isJsonObject, type JsonObject, parseJson, quoted } from "../lib/json.ts";

/** The most bytes and names of an id's properties, those of secret keys and those of other keys each for itself (L1). */
export const ID_PROPERTIES_BYTES_MAX = 64 * 1024;
export const ID_PROPERTIES_NAMES_MAX = 1_000;

/** The changes that an event makes to an id's properties. Null for none. */
export interface PropertyChanges {
  readonly set: JsonObject | null;
  readonly setOnce: JsonObject | null;
  readonly unset: readonly string[] | null;
  /** Returns the JSON texts of `set`, `setOnce` and `unset`. Null when they are too long to remember. */
  readonly changes: () => string | null;
}

export const changesProperties = ({ set, setOnce, unset }: PropertyChanges): boolean =>
  set !== null || setOnce !== null || unset !== null;

/**
 * The properties of an id as JSON texts by name, to which one event after another is applied. The cost of an event depends on its
 * own size, not on the size of its id's properties.
 */
export class IdProperties {
  readonly #texts: Map<string, string>;
  /** The bytes of all members, with quotes, colons and commas. */
  #bytes = 0;
  isChanged = false;

  readonly #stored: string | null;

  /** `stored`: the JSON text of an object; null when nothing is stored. */
  constructor(stored: string | null) {
    this.#stored = stored;
    const properties = stored === null ? {} : parseJson(stored);
    assert(isJsonObject(properties), "an id's properties are a JSON object");
    this.#texts = new Map(Object.entries(properties).map(([name, value]) => [name, JSON.stringify(value)]));
    for (const [name, text] of this.#texts) this.#bytes += nameBytes(name) + utf8Length(text);
  }

  /**
   * Applies `$unset`, `$set_once` and `$set` of an event. As in PostHog, a name that the event unsets is not set. Returns
   * false when a property was not set because the id's properties would exceed their limits.
   */
  apply({ set, setOnce, unset }: Pick<PropertyChanges, "set" | "setOnce" | "unset">): boolean {
    const removed = new Set(unset);
    for (const name of removed) this.#remove(name);
    let areAllSet = true;
    for (const [name, value] of Object.entries(setOnce ?? {})) {
      if (!removed.has(name) && !this.#texts.has(name) && !this.#put(name, value)) areAllSet = false;
    }
    for (const [name, value] of Object.entries(set ?? {})) {
      if (!removed.has(name) && !this.#put(name, value)) areAllSet = false;
    }
    return areAllSet;
  }

  /** Returns whether the same changes would have no effect now. */
  isSettled({ set, setOnce, unset }: PropertyChanges): boolean {
    const removed = new Set(unset);
    return (
      ![...removed].some((name) => this.#texts.has(name)) &&
      Object.keys(setOnce ?? {}).every((name) => removed.has(name) || this.#texts.has(name)) &&
      Object.entries(set ?? {}).every(
        ([name, value]) => removed.has(name) || this.#texts.get(name) === JSON.stringify(value),
      )
    );
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

  #put(name: string, value: unknown): boolean {
    const text = JSON.stringify(value);
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

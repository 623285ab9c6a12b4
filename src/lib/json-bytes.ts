/** The position of a value, or of a name with its quotes, in the bytes. */
export interface Span {
  readonly start: number;
  readonly end: number;
}

/** The error for text that is not JSON. */
export class JsonSyntaxError extends Error {}

const QUOTE = 0x22;
const COMMA = 0x2c;
const COLON = 0x3a;
const BACKSLASH = 0x5c;
const OPEN_LIST = 0x5b;
const CLOSE_LIST = 0x5d;
const OPEN_OBJECT = 0x7b;
const CLOSE_OBJECT = 0x7d;

const codes = (text: string): readonly number[] => Array.from(text, (character) => character.charCodeAt(0));
const LITERALS: ReadonlyMap<number, readonly number[]> = new Map(
  ["true", "false", "null"].map((word) => [word.charCodeAt(0), codes(word)]),
);
const SHORT_BYTES = 24;
const isDigit = (byte: number | undefined): boolean => byte !== undefined && byte >= 0x30 && byte <= 0x39;
const isHex = (byte: number | undefined): boolean =>
  isDigit(byte) || (byte !== undefined && (byte | 0x20) >= 0x61 && (byte | 0x20) <= 0x66);
const SIMPLE_ESCAPES = new Set(codes('"\\/bfnrt'));

/** A set of ASCII names to find among the members of an object. */
export class Names {
  readonly #byLength = new Map<number, { readonly name: string; readonly bytes: readonly number[] }[]>();

  constructor(names: readonly string[]) {
    for (const name of names) {
      const sameLength = this.#byLength.get(name.length) ?? [];
      sameLength.push({ name, bytes: codes(name) });
      this.#byLength.set(name.length, sameLength);
    }
  }

  /** Returns the name of the set that stands at this position in the bytes. */
  find(bytes: Uint8Array, start: number, end: number): string | undefined {
    const sameLength = this.#byLength.get(end - start);
    return sameLength?.find((entry) => entry.bytes.every((code, index) => bytes[start + index] === code))?.name;
  }

  has(name: string): boolean {
    return this.#byLength.get(name.length)?.some((entry) => entry.name === name) ?? false;
  }
}

/**
 * A reader of JSON in UTF-8 bytes that creates only the values a caller asks for. Every walk checks the whole grammar and throws
 * `JsonSyntaxError`. Time grows with the number of bytes, memory only with the depth of nesting.
 */
export class JsonBytes {
  readonly #bytes: Uint8Array;
  /** 1 for each open level that is an object, 0 for a list. */
  #levels = new Uint8Array(64);
  /** How deeply the last value passed to `skip` nests objects and lists. */
  depth = 0;
  /** How many objects and lists `skip` has passed so far. */
  containers = 0;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
  }

  /** Returns the text of a span of valid UTF-8. */
  text({ start, end }: Span): string {
    // Starting a decoder is slow, and short names are frequent.
    if (end - start > SHORT_BYTES) return decoder.decode(this.#bytes.subarray(start, end));
    let text = "";
    for (let at = start; at < end; at++) {
      const byte = this.#bytes[at] ?? 0;
      if (byte >= 0x80) return decoder.decode(this.#bytes.subarray(start, end));
      text += String.fromCharCode(byte);
    }
    return text;
  }

  /** Walks the single value of the whole text with `visit`, which returns the end of the value. */
  whole(visit: (start: number) => number): void {
    if (this.skipSpace(visit(this.skipSpace(0))) !== this.#bytes.length) throw new JsonSyntaxError();
  }

  /**
   * Calls `visit` for each member with its name (quotes included) and the start of its value. `visit` returns the end of the
   * value. Returns the end of the object.
   */
  members(start: number, visit: (name: Span, valueStart: number) => number): number {
    let at = this.skipSpace(start + 1);
    if (this.#bytes[at] === CLOSE_OBJECT) return at + 1;
    for (;;) {
      const name = { start: at, end: this.#string(at) };
      const end = visit(name, this.skipSpace(this.#expect(this.skipSpace(name.end), COLON)));
      at = this.skipSpace(end);
      if (this.#bytes[at] === CLOSE_OBJECT) return at + 1;
      at = this.skipSpace(this.#expect(at, COMMA));
    }
  }

  /** Calls `visit` with the start of each element; `visit` returns the element's end. Returns the end of the list. */
  elements(start: number, visit: (elementStart: number) => number): number {
    let at = this.skipSpace(start + 1);
    if (this.#bytes[at] === CLOSE_LIST) return at + 1;
    for (;;) {
      at = this.skipSpace(visit(at));
      if (this.#bytes[at] === CLOSE_LIST) return at + 1;
      at = this.skipSpace(this.#expect(at, COMMA));
    }
  }

  /** Returns the name of the set `names` that equals the quoted name at this position. */
  find(names: Names, { start, end }: Span): string | undefined {
    const found = names.find(this.#bytes, start + 1, end - 1);
    if (found !== undefined || !this.#hasEscape(start, end)) return found;
    const name = this.string({ start, end });
    return names.has(name) ? name : undefined;
  }

  /** Returns the decoded value of a quoted string. */
  string({ start, end }: Span): string {
    if (this.#hasEscape(start, end)) return String(JSON.parse(this.text({ start, end })));
    return this.text({ start: start + 1, end: end - 1 });
  }

  #hasEscape(start: number, end: number): boolean {
    for (let at = start; at < end; at++) if (this.#bytes[at] === BACKSLASH) return true;
    return false;
  }

  isNull({ start }: Span): boolean {
    return this.#bytes[start] === 0x6e;
  }

  /** Returns whether the object or list at this position is empty. */
  isEmptyAt(start: number): boolean {
    const byte = this.#bytes[this.skipSpace(start + 1)];
    return byte === CLOSE_OBJECT || byte === CLOSE_LIST;
  }

  kindAt(at: number): "object" | "list" | "string" | "other" {
    const byte = this.#bytes[at];
    if (byte === OPEN_OBJECT) return "object";
    if (byte === OPEN_LIST) return "list";
    return byte === QUOTE ? "string" : "other";
  }

  /** Returns the position of the first byte from `start` that is not white space. */
  skipSpace(start: number): number {
    let at = start;
    for (;;) {
      const byte = this.#bytes[at];
      if (byte !== 0x20 && byte !== 0x0a && byte !== 0x0d && byte !== 0x09) return at;
      at++;
    }
  }

  #expect(at: number, byte: number): number {
    if (this.#bytes[at] !== byte) throw new JsonSyntaxError();
    return at + 1;
  }

  /** Skips one value and returns its end. */
  skip(start: number): number {
    const bytes = this.#bytes;
    let level = 0;
    let at = start;
    this.depth = 0;
    for (;;) {
      const byte = bytes[at];
      if (byte === OPEN_OBJECT || byte === OPEN_LIST) {
        const isObject = byte === OPEN_OBJECT;
        const inner = this.skipSpace(at + 1);
        this.containers++;
        if (level + 1 > this.depth) this.depth = level + 1;
        if (bytes[inner] === (isObject ? CLOSE_OBJECT : CLOSE_LIST)) at = inner + 1;
        else {
          this.#open(level++, isObject);
          at = isObject ? this.#toValue(inner) : inner;
          continue;
        }
      } else at = byte === QUOTE ? this.#string(at) : this.#scalar(at);
      // After a value: close levels that end here, or go to the next value.
      for (; level > 0; level--) {
        at = this.skipSpace(at);
        const isObject = this.#levels[level - 1] === 1;
        if (bytes[at] === COMMA) {
          at = this.skipSpace(at + 1);
          if (isObject) at = this.#toValue(at);
          break;
        }
        at = this.#expect(at, isObject ? CLOSE_OBJECT : CLOSE_LIST);
      }
      if (level === 0) return at;
    }
  }

  #open(level: number, isObject: boolean): void {
    if (level === this.#levels.length) {
      const wider = new Uint8Array(level * 2);
      wider.set(this.#levels);
      this.#levels = wider;
    }
    this.#levels[level] = isObject ? 1 : 0;
  }

  /** Skips a name and its colon. */
  #toValue(at: number): number {
    return this.skipSpace(this.#expect(this.skipSpace(this.#string(at)), COLON));
  }

  #string(start: number): number {
    const bytes = this.#bytes;
    let at = this.#expect(start, QUOTE);
    for (;;) {
      const byte = bytes[at];
      if (byte === QUOTE) return at + 1;
      // The text ended, or has a control character.
      if (byte === undefined || byte < 0x20) throw new JsonSyntaxError();
      at = byte === BACKSLASH ? this.#escape(at + 1) : at + 1;
    }
  }

  #escape(at: number): number {
    const byte = this.#bytes[at];
    if (byte !== undefined && SIMPLE_ESCAPES.has(byte)) return at + 1;
    if (byte !== 0x75) throw new JsonSyntaxError();
    for (let digit = 1; digit <= 4; digit++) if (!isHex(this.#bytes[at + digit])) throw new JsonSyntaxError();
    return at + 5;
  }

  /** Skips a number, `true`, `false` or `null`. */
  #scalar(start: number): number {
    const bytes = this.#bytes;
    const word = LITERALS.get(bytes[start] ?? 0);
    if (word !== undefined) {
      if (word.some((code, index) => bytes[start + index] !== code)) throw new JsonSyntaxError();
      return start + word.length;
    }
    const firstDigit = bytes[start] === 0x2d ? start + 1 : start;
    let at = this.#digits(firstDigit);
    if (bytes[firstDigit] === 0x30 && at > firstDigit + 1) throw new JsonSyntaxError();
    if (bytes[at] === 0x2e) at = this.#digits(at + 1);
    if (((bytes[at] ?? 0) | 0x20) === 0x65) {
      const sign = bytes[at + 1];
      at = this.#digits(sign === 0x2b || sign === 0x2d ? at + 2 : at + 1);
    }
    return at;
  }

  #digits(start: number): number {
    let at = start;
    while (isDigit(this.#bytes[at])) at++;
    if (at === start) throw new JsonSyntaxError();
    return at;
  }
}

/** Returns the index of the first element of a list that is not JSON, in linear time. Null when the text is no list, or has none. */
export function brokenElement(bytes: Uint8Array): number | null {
  const json = new JsonBytes(bytes);
  const start = json.skipSpace(0);
  if (json.kindAt(start) !== "list") return null;
  let index = -1;
  try {
    json.elements(start, (at) => {
      index++;
      return json.skip(at);
    });
    return null;
  } catch (error) {
    if (error instanceof JsonSyntaxError) return Math.max(index, 0);
    throw error;
  }
}

/** A UTF-8 decoder that keeps a byte order mark as an ordinary character. */
const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

import { rememberUpTo } from "../lib/bounded-memory.ts";
import { addToCrc, CRC_START, crc32, DIGITS, finishCrc, fromBase62, toBase62 } from "../lib/encoding.ts";
import type { Environment, Mode } from "../runtime.ts";
import { parseDatabaseIndex } from "./session.ts";

/** The parts of a written key (W3). Only the database knows whether it is valid. */
export interface Key {
  readonly kind: "secret" | "publishable" | "relay";
  readonly environment: Environment;
}

const KEY_PREFIXES = { secret: "sk", publishable: "pk", relay: "rk" } as const;
const KEY_KINDS: ReadonlyMap<string, Key["kind"]> = new Map([
  ["sk", "secret"],
  ["pk", "publishable"],
  ["rk", "relay"],
]);
const CHECKSUM_CHARACTERS = 6;

/**
 * The length of the longest key. A key has `sk_live_`, 22 random characters, 23 characters of the application's id, the
 * environment's integer in base62, and a checksum. So a key names its environment, and by the application's id its database. Most
 * mistyped or invented keys are detected without a query.
 */
const KEY_CHARACTERS_MAX = 67;
const KEY_FORM = /^([spr]k)_(live|test)_([0-9A-Za-z]{22})([0-9A-Za-z]{23})([0-9A-Za-z]{1,8})[0-9A-Za-z]{6}$/;

const checksum = (text: string): string => toBase62(crc32(text)).padStart(CHECKSUM_CHARACTERS, "0");

/** Returns whether the checksum `crc` stands before the position `end` of a text. */
function hasChecksum(text: string, end: number, crc: number): boolean {
  let rest = crc;
  for (let at = end - 1; at >= end - CHECKSUM_CHARACTERS; at--) {
    if (text.charCodeAt(at) !== DIGITS.charCodeAt(rest % DIGITS.length)) return false;
    rest = Math.floor(rest / DIGITS.length);
  }
  return true;
}

/** Returns whether a text with the letters of a key ends in its checksum. */
const endsInChecksum = (text: string): boolean =>
  hasChecksum(text, text.length, crc32(text.slice(0, -CHECKSUM_CHARACTERS)));

/** Returns a new key of an environment. `random` is 22 random characters of base62, more than 128 bits. */
export function writeKey(
  kind: Key["kind"],
  { id, appId, mode }: Pick<Environment, "id" | "appId" | "mode">,
  random: string,
): string {
  const text = `${KEY_PREFIXES[kind]}_${mode}_${random}${appId.slice("app_".length)}${toBase62(id)}`;
  return `${text}${checksum(text)}`;
}

const ADMIN_KEY = /^ak_[0-9A-Za-z]{28}$/;

/** Returns a new administration key. `random` is 22 random characters of base62. */
export function writeAdminKey(random: string): string {
  const text = `ak_${random}`;
  return `${text}${checksum(text)}`;
}

/** Returns whether a text has the form of an administration key. An admin token is always longer. */
export const isAdminKey = (text: string): boolean => ADMIN_KEY.test(text) && endsInChecksum(text);

const HINT_CHARACTERS = 4;

/** Returns the short text by which people recognise a key. */
export const keyHint = (key: string): string =>
  `${key.slice(0, key.lastIndexOf("_") + 1)}…${key.slice(-HINT_CHARACTERS)}`;

/** Parses a key. Returns null for text that is not a key. */
export const readKey = (text: string): Key | null => (text.length > KEY_CHARACTERS_MAX ? null : readKeyForm(text));

const readKeyForm = rememberUpTo(100, readKeyParts);

function readKeyParts(text: string): Key | null {
  const parts = KEY_FORM.exec(text);
  if (parts === null) return null;
  const [, prefix = "", mode, , app, environment = ""] = parts;
  if (!endsInChecksum(text)) return null;
  const kind = KEY_KINDS.get(prefix);
  const id = fromBase62(environment);
  const appId = `app_${app}`;
  const database = parseDatabaseIndex(appId);
  if (Number.isNaN(id) || toBase62(id) !== environment || database === null || kind === undefined) {
    return null;
  }
  // The pattern matches only these two modes.
  return { kind, environment: { id, appId, mode: mode as Mode, database } };
}

/** The form of a key in a text. The checksum decides whether it is a key, and where it ends. */
interface KeyForm {
  /** Takes as many letters as the longest key has. The last underscore is before the letters. */
  readonly pattern: RegExp;
  readonly prefixCharacters: number;
  readonly charactersMin: number;
}

const APPLICATION_KEY: KeyForm = {
  ...{ pattern: /[spr]k_(?:live|test)_[0-9A-Za-z]{52,59}/g, prefixCharacters: 8, charactersMin: 60 },
};
const ADMINISTRATION_KEY: KeyForm = { pattern: /ak_[0-9A-Za-z]{28}/g, prefixCharacters: 3, charactersMin: 31 };
/** How many letters at the end of a key may be the first ones of another key. */
const SHARED_LETTERS = 2;
/** A signing secret of webhooks: of Purser's, or of Stripe's. It has no checksum. */
const SIGNING_SECRET = /whsec_[0-9A-Za-z+/]{24,88}={0,2}/g;

const WHOLE_KEY = /(?<!\w)[spr]k_(?:live|test)_[0-9A-Za-z]{52,59}(?!\w)/g;

/** Returns the first application's key that stands alone in a text. Null when there is none. */
export function findKey(text: string): string | null {
  for (const [match] of text.matchAll(WHOLE_KEY)) if (readKeyParts(match) !== null) return match;
  return null;
}

/** Returns where the longest key that begins at `start` ends, at most at `endMax`. Null when none does. */
function endOfKey(text: string, start: number, endMax: number, charactersMin: number): number | null {
  let found: number | null = null;
  let checked = start + charactersMin - CHECKSUM_CHARACTERS;
  let crc = addToCrc(CRC_START, text, start, checked);
  for (; checked + CHECKSUM_CHARACTERS <= endMax; checked++) {
    if (hasChecksum(text, checked + CHECKSUM_CHARACTERS, finishCrc(crc))) found = checked + CHECKSUM_CHARACTERS;
    crc = addToCrc(crc, text, checked, checked + 1);
  }
  return found;
}

function cutKeys(text: string, { pattern, prefixCharacters, charactersMin }: KeyForm): string {
  const parts: string[] = [];
  let cutTo = 0;
  pattern.lastIndex = 0;
  // A search that returns matches would create an object for each.
  while (pattern.test(text)) {
    const endMax = pattern.lastIndex;
    const start = text.lastIndexOf("_", endMax - 1) + 1 - prefixCharacters;
    const end = endOfKey(text, start, endMax, charactersMin);
    pattern.lastIndex = (end ?? endMax) - SHARED_LETTERS;
    if (end === null) continue;
    parts.push(text.slice(cutTo, start), keyHint(text.slice(start, end)));
    cutTo = end;
  }
  return cutTo === 0 ? text : `${parts.join("")}${text.slice(cutTo)}`;
}

/**
 * Returns the text with each key and signing secret replaced by its hint (L1). The text may be JSON from JSON.stringify, which
 * never escapes their characters. Takes linear time, because two possible keys share at most two letters.
 */
export function withoutKeys(text: string): string {
  // Most texts have neither, which a search for a short text finds out fastest.
  const isSearched = text.includes("k_");
  const mayHaveKey = isSearched && (text.includes("k_live_") || text.includes("k_test_"));
  const own = mayHaveKey ? cutKeys(text, APPLICATION_KEY) : text;
  const rest = isSearched && own.includes("ak_") ? cutKeys(own, ADMINISTRATION_KEY) : own;
  return rest.includes("whsec_") ? rest.replaceAll(SIGNING_SECRET, keyHint) : rest;
}

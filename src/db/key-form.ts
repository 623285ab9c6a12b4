import { rememberUpTo } from "../lib/bounded-memory.ts";
import { crc32, DIGITS, fromBase62, toBase62 } from "../lib/encoding.ts";
import type { Environment, Mode } from "../runtime.ts";
import { databaseIndexOf } from "./session.ts";

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
const KEY_FORM = /^([spr]k)_(live|test)_([0-9A-Za-z]{22})([0-9A-Za-z]{23})([0-9A-Za-z]{1,8})([0-9A-Za-z]{6})$/;

const checksum = (text: string): string => toBase62(crc32(text)).padStart(CHECKSUM_CHARACTERS, "0");

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
export const isAdminKey = (text: string): boolean =>
  ADMIN_KEY.test(text) && checksum(text.slice(0, -CHECKSUM_CHARACTERS)) === text.slice(-CHECKSUM_CHARACTERS);

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
  const [, prefix = "", mode, , app, environment = "", sum] = parts;
  if (checksum(text.slice(0, -CHECKSUM_CHARACTERS)) !== sum) return null;
  const kind = KEY_KINDS.get(prefix);
  const id = fromBase62(environment);
  const appId = `app_${app}`;
  const database = databaseIndexOf(appId);
  if (Number.isNaN(id) || toBase62(id) !== environment || database === null || kind === undefined) {
    return null;
  }
  // The pattern matches only these two modes.
  return { kind, environment: { id, appId, mode: mode as Mode, database } };
}

/** Matches the beginning of a key. A letter of a key's random part may begin another key, so only beginnings are matched. */
const KEY_START = /[spr]k_(?:live|test)_|ak_|whsec_/g;
const KEY_CHARACTERS_MIN = 60;
const ADMIN_KEY_CHARACTERS = 31;
/** A signing secret of webhooks: of Purser's, or of Stripe's. It has no checksum. */
const SIGNING_SECRET = /whsec_[0-9A-Za-z+/]{24,88}={0,2}/y;

/** The beginning of a key, and all letters that may belong to it. */
const KEY_LETTERS = /[spr]k_(?:live|test)_[0-9A-Za-z]{52,59}/y;

/**
 * Returns the key that begins at this position. More letters may follow it: its checksum decides where it ends. Each letter is added
 * to the checksum once, because a text may have many beginnings.
 */
function keyStartingAt(text: string, start: number): string | null {
  SIGNING_SECRET.lastIndex = start;
  const secret = SIGNING_SECRET.exec(text);
  if (secret !== null) return secret[0];
  const admin = text.slice(start, start + ADMIN_KEY_CHARACTERS);
  if (isAdminKey(admin)) return admin;
  KEY_LETTERS.lastIndex = start;
  const letters = KEY_LETTERS.exec(text)?.[0] ?? "";
  let [found, crc]: [string | null, number] = [null, 0];
  for (let length = KEY_CHARACTERS_MIN, end = 0; length <= letters.length; length++) {
    crc = crc32(letters.slice(end, length - CHECKSUM_CHARACTERS), crc);
    end = length - CHECKSUM_CHARACTERS;
    // The last letter alone excludes most texts.
    if (DIGITS.charAt(crc % DIGITS.length) !== letters.charAt(length - 1)) continue;
    const key = letters.slice(0, length);
    if (readKeyParts(key) !== null) found = key;
  }
  return found;
}

const WHOLE_KEY = /(?<!\w)[spr]k_(?:live|test)_[0-9A-Za-z]{52,59}(?!\w)/g;

/** Returns the first application's key that stands alone in a text. Null when there is none. */
export function findKey(text: string): string | null {
  for (const [match] of text.matchAll(WHOLE_KEY)) if (readKeyParts(match) !== null) return match;
  return null;
}

/**
 * Returns the text with each key and signing secret replaced by its hint (L1). The text may be JSON from JSON.stringify, which
 * never escapes their characters. Takes linear time: no more than 99 characters are read again.
 */
export function withoutKeys(text: string): string {
  // Most texts have neither, which a search for a short text finds out fastest.
  if (!text.includes("k_") && !text.includes("whsec_")) return text;
  const parts: string[] = [];
  let end = 0;
  for (const { index } of text.matchAll(KEY_START)) {
    const key = index < end ? null : keyStartingAt(text, index);
    if (key === null) continue;
    parts.push(text.slice(end, index), keyHint(key));
    end = index + key.length;
  }
  return end === 0 ? text : `${parts.join("")}${text.slice(end)}`;
}

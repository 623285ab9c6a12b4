import { databaseIndexOf } from "../db/databases.ts";
import { fromBase62, toBase62 } from "../lib/base62.ts";
import { crc32 } from "../lib/crc32.ts";
import { remember } from "../lib/remember.ts";
import type { Environment, Mode } from "../runtime.ts";

/** A key as it is written (W3). Whether it is in force, the database alone knows. */
export interface Key {
  readonly kind: "secret" | "publishable" | "relay";
  readonly environment: Environment;
}

const PREFIXES = { secret: "sk", publishable: "pk", relay: "rk" } as const;
const KINDS: ReadonlyMap<string, Key["kind"]> = new Map([
  ["sk", "secret"],
  ["pk", "publishable"],
  ["rk", "relay"],
]);
const CHECKSUM_CHARACTERS = 6;

/**
 * `sk_live_`, the 22 random characters of the key, those of the application's id, the environment's integer in base62, and a
 * checksum of all that. So a key names its environment and, by the application's id, its database; whatever was mistyped or
 * made up without this form is known without a query.
 */
const KEY_CHARACTERS_MAX = 67;
const KEY = /^([spr]k)_(live|test)_([0-9A-Za-z]{22})([0-9A-Za-z]{23})([0-9A-Za-z]{1,8})([0-9A-Za-z]{6})$/;

const checksum = (text: string): string => toBase62(crc32(text)).padStart(CHECKSUM_CHARACTERS, "0");

/** A new key of an environment; `random` is 22 random characters of base62, more than 128 bits. */
export function writeKey(
  kind: Key["kind"],
  { id, appId, mode }: Pick<Environment, "id" | "appId" | "mode">,
  random: string,
): string {
  const text = `${PREFIXES[kind]}_${mode}_${random}${appId.slice("app_".length)}${toBase62(id)}`;
  return `${text}${checksum(text)}`;
}

/** Null for what is no key. */
export const readKey = (text: string): Key | null => (text.length > KEY_CHARACTERS_MAX ? null : readForm(text));

const readForm = remember(100, (text): Key | null => {
  const parts = KEY.exec(text);
  if (parts === null) return null;
  const [, prefix = "", mode, , app, environment = "", sum] = parts;
  if (checksum(text.slice(0, -CHECKSUM_CHARACTERS)) !== sum) return null;
  const kind = KINDS.get(prefix);
  const id = fromBase62(environment);
  const appId = `app_${app}`;
  const database = databaseIndexOf(appId);
  if (Number.isNaN(id) || toBase62(id) !== environment || database === null || kind === undefined) {
    return null;
  }
  // The pattern admits these two modes alone.
  return { kind, environment: { id, appId, mode: mode as Mode, database } };
});

import { PurserError } from "../../errors.ts";
import { encodeBase64url } from "../../lib/encoding.ts";
import type { Environment } from "../../runtime.ts";
import type { Settings } from "../../settings.ts";

export type HasSettings = { readonly settings: Pick<Settings, "erasureSecrets"> };

/** A secret that hashes tombstones. */
export interface ErasureSecret {
  readonly key: CryptoKey;
  /** Identifies the secret without revealing it. */
  readonly fingerprint: string;
}

/** Imported keys of this isolate. No promises, because a request must not wait for another's promise. */
const imported = new Map<string, ErasureSecret>();
const importedMax = 4;
const FINGERPRINT_LENGTH = 12;

async function importSecret(secret: string): Promise<ErasureSecret> {
  const known = imported.get(secret);
  if (known !== undefined) return known;
  const algorithm = { name: "HMAC", hash: "SHA-256" };
  const key = await crypto.subtle.importKey("raw", new TextEncoder().encode(secret), algorithm, false, ["sign"]);
  const made = { key, fingerprint: (await hmac(key, ["fingerprint"])).slice(0, FINGERPRINT_LENGTH) };
  if (imported.size >= importedMax) imported.clear();
  imported.set(secret, made);
  return made;
}

async function hmac(key: CryptoKey, parts: readonly string[]): Promise<string> {
  const bytes = new TextEncoder().encode(JSON.stringify(parts));
  return encodeBase64url(new Uint8Array(await crypto.subtle.sign("HMAC", key, bytes)));
}

/** The configured secrets, the current one first. Throws `erasure_unavailable` when there is none (E4). */
export async function erasureSecrets({ settings }: HasSettings): Promise<readonly [ErasureSecret, ...ErasureSecret[]]> {
  if (settings.erasureSecrets === null) throw erasureUnavailable();
  const { current, previous } = settings.erasureSecrets;
  return [await importSecret(current), ...(previous === null ? [] : [await importSecret(previous)])];
}

/** The fingerprints of the configured secrets. */
export async function fingerprintsOf(ctx: HasSettings): Promise<readonly string[]> {
  return ctx.settings.erasureSecrets === null ? [] : (await erasureSecrets(ctx)).map(({ fingerprint }) => fingerprint);
}

/** The keyed hash of an erased id, or of a reference in the books of its account. */
export function hashName(
  { key }: ErasureSecret,
  { appId, mode }: Pick<Environment, "appId" | "mode">,
  kind: "id" | "reference",
  name: string,
): Promise<string> {
  return hmac(key, [kind, appId, mode, name]);
}

/** 503: the deployment lacks a secret that hashes tombstones. */
export function erasureUnavailable(): PurserError {
  const message =
    "This deployment has no `ERASURE_SECRET` (32 characters or more), or another one than that which erased ids were hashed with.";
  return new PurserError("erasure_unavailable", message, { headers: { "Retry-After": "60" }, fault: "not_set_up" });
}

import { canonicalJson } from "../lib/canonical-json.ts";
import { sha256 } from "../lib/hash.ts";
import type { TenantCtx } from "../runtime.ts";

/** Stored with a write that must take effect once: the hash of its request, and an id of the write itself. */
export interface Stamp {
  readonly hash: string;
  readonly nonce: string;
  readonly stored: string;
}

/** `kind` distinguishes kinds of requests. `input` is the validated input, so its spelling does not matter. */
export async function stampRequest(ctx: TenantCtx, kind: readonly string[], input: object): Promise<Stamp> {
  const hash = await sha256(canonicalJson([...kind, input]));
  const nonce = ctx.newId("");
  return { hash, nonce, stored: `${hash}.${nonce}` };
}

/** Whether a stored stamp is of this same write (its answer was lost), of an equal request, or of another request. */
export function compareStamp(stored: string, stamp: Stamp): "own" | "replay" | "other" {
  if (stored === stamp.stored) return "own";
  return stored.startsWith(`${stamp.hash}.`) ? "replay" : "other";
}

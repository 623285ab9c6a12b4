import { canonicalJson } from "../lib/canonical-json.ts";
import { sha256 } from "../lib/hash.ts";
import type { Ctx } from "../runtime.ts";

/** What is stored beside a write that must land once: the hash of its request, and an id of the write itself. */
export interface Stamp {
  readonly hash: string;
  readonly nonce: string;
  readonly stored: string;
}

/** `kind` keeps requests of different kinds apart; `input` is what the validator read, not the caller's spelling. */
export async function stampRequest(ctx: Ctx, kind: readonly string[], input: object): Promise<Stamp> {
  const hash = await sha256(canonicalJson([...kind, input]));
  const nonce = ctx.newId("");
  return { hash, nonce, stored: `${hash}.${nonce}` };
}

/** Whether a stored stamp is of this very write (its answer was lost), of the same request, or of another. */
export function compareStamp(stored: string, stamp: Stamp): "own" | "replay" | "other" {
  if (stored === stamp.stored) return "own";
  return stored.startsWith(`${stamp.hash}.`) ? "replay" : "other";
}

import { env } from "cloudflare:workers";
import { expect } from "vitest";
import type { Mode, Scope } from "../../src/runtime.ts";
import { type Client, home } from "./world.ts";

/** The database that is bound as `DB`. It has the administration keys. */
export const firstDb = (): D1Database => (home() === 0 ? env.DB : env.SPARE);

interface Rights {
  readonly scopes: readonly Scope[];
  readonly apps?: readonly string[];
  readonly modes?: readonly Mode[];
}

/** Creates an administration key through the API. */
export async function makeAdminKey(call: Client, rights: Rights): Promise<{ key: string; adminKeyId: string }> {
  const body = { name: "Test", ...rights };
  const answer = await call("POST", "/api/v1/admin/keys", { key: env.ADMIN_TOKEN, body });
  expect(answer.status).toBe(200);
  return { key: answer.body.key, adminKeyId: answer.body.adminKeyId };
}

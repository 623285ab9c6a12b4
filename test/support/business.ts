import { env } from "cloudflare:workers";

/** Ends the walks of the cron over this database, with what they found: the next one begins anew. */
export async function forgetWalks(): Promise<void> {
  await env.DB.batch(["business_walks", "business_figures"].map((table) => env.DB.prepare(`DELETE FROM ${table}`)));
}

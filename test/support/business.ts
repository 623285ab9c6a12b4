import { env } from "cloudflare:workers";

/** Ends the walks of the cron over this database, with their results, so that the next one starts again. */
export async function forgetWalks(): Promise<void> {
  await env.DB.batch(["business_walks", "business_figures"].map((table) => env.DB.prepare(`DELETE FROM ${table}`)));
}

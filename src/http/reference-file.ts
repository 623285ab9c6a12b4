/** The files that `npm run reference` generates from the schemas before the Worker is built. */
export type ReferenceFile = "openapi.json" | "export-document.schema.json" | "docs.html";

/** The files that `npm run reference` builds from other sources: clients/balance, docs/llms.txt and clients/dashboard. */
type OtherFile = "purser-balance.js" | "llms.txt" | DashboardFile;
export type DashboardFile = "dashboard.css" | "dashboard.js" | "dashboard.svg" | "dashboard.version";

/**
 * Returns the text of a file of the reference. It is a static asset, so that the code that generates it is not part of the
 * Worker.
 */
export async function referenceFile(env: Env, name: ReferenceFile | OtherFile): Promise<string> {
  const answer = await env.REFERENCE.fetch(`https://reference.invalid/${name}`);
  if (!answer.ok) throw new Error(`The reference has no ${name}.`);
  return answer.text();
}

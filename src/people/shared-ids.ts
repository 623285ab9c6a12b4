/** Ids that PostHog's clients send when they do not know the user: its own list, and its cookieless mode's. Lower case. */
const SHARED_IDS = new Set([
  "",
  "$posthog_cookieless",
  "0",
  "00000000-0000-0000-0000-000000000000",
  "[object object]",
  "anonymous",
  "anonymous-user",
  "backend",
  "distinct_id",
  "distinctid",
  "email",
  "false",
  "guest",
  "id",
  "nan",
  "none",
  "not_authenticated",
  "null",
  "system",
  "true",
  "undefined",
  "user",
]);

/**
 * Whether many devices share this id, so that it must never link two people (P2). It is compared without case, outer white
 * space and quotes.
 */
export function isSharedId(distinctId: string): boolean {
  const bare = distinctId.trim().toLowerCase();
  if (SHARED_IDS.has(bare)) return true;
  const quote = bare.charAt(0);
  if (bare.length < 2 || (quote !== '"' && quote !== "'") || !bare.endsWith(quote)) return false;
  return SHARED_IDS.has(bare.slice(1, -1).trim());
}

/** PostHog's list of ids that stand for nobody: what a client says when it knows no user. Lower case. */
const SHARED_IDS = new Set([
  "",
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
 * Whether many devices share this id, so that it must never join two people: compared trimmed, in any case, and in
 * quotes too (P2).
 */
export function isSharedId(distinctId: string): boolean {
  const bare = distinctId.trim().toLowerCase();
  if (SHARED_IDS.has(bare)) return true;
  const quote = bare.charAt(0);
  if (bare.length < 2 || (quote !== '"' && quote !== "'") || !bare.endsWith(quote)) return false;
  return SHARED_IDS.has(bare.slice(1, -1).trim());
}

import { Webhook } from "standardwebhooks";

/** The headers of an attempt: a signature for each secret, `whsec_` and base64. */
export function signedHeaders(
  id: string,
  atMs: number,
  body: string,
  secrets: readonly string[],
): Record<string, string> {
  const signatures = secrets.map((secret) => new Webhook(secret).sign(id, new Date(atMs), body));
  return {
    "content-type": "application/json",
    "user-agent": "Purser",
    "webhook-id": id,
    "webhook-timestamp": String(Math.floor(atMs / 1_000)),
    "webhook-signature": signatures.join(" "),
  };
}

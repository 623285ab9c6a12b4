/** The signature of a message under a secret, as Standard Webhooks has it. `secret` is `whsec_` and base64. */
async function signatureOf(secret: string, signed: Uint8Array): Promise<string> {
  const raw = Uint8Array.from(atob(secret.slice("whsec_".length)), (character) => character.charCodeAt(0));
  const key = await crypto.subtle.importKey("raw", raw, { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
  const mac = new Uint8Array(await crypto.subtle.sign("HMAC", key, signed));
  return `v1,${btoa(String.fromCharCode(...mac))}`;
}

/** The headers of an attempt: a signature for each secret. */
export async function signedHeaders(
  id: string,
  atMs: number,
  body: string,
  secrets: readonly string[],
): Promise<Record<string, string>> {
  const timestamp = String(Math.floor(atMs / 1_000));
  const signed = new TextEncoder().encode(`${id}.${timestamp}.${body}`);
  const signatures = await Promise.all(secrets.map((secret) => signatureOf(secret, signed)));
  return {
    "content-type": "application/json",
    "user-agent": "Purser",
    "webhook-id": id,
    "webhook-timestamp": timestamp,
    "webhook-signature": signatures.join(" "),
  };
}

/**
 * The header with which Stripe signs a payload. test/unit/stripe-signature.test.ts compares it with what Stripe's own package
 * writes, which is too large to load into each workerd.
 */
export async function stripeSignature(payload: string, secret: string, timestamp: number): Promise<string> {
  const bytes = (text: string) => new TextEncoder().encode(text);
  const key = await crypto.subtle.importKey("raw", bytes(secret), { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
  const mac = new Uint8Array(await crypto.subtle.sign("HMAC", key, bytes(`${timestamp}.${payload}`)));
  return `t=${timestamp},v1=${[...mac].map((byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}

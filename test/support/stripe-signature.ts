/**
 * The header with which Stripe signs a payload. Stripe's package is too large to load into each workerd, so
 * test/unit/stripe-signature.test.ts compares both.
 */
export async function stripeSignature(payload: string, secret: string, timestamp: number): Promise<string> {
  const bytes = (text: string) => new TextEncoder().encode(text);
  const key = await crypto.subtle.importKey("raw", bytes(secret), { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
  const mac = new Uint8Array(await crypto.subtle.sign("HMAC", key, bytes(`${timestamp}.${payload}`)));
  return `t=${timestamp},v1=${[...mac].map((byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}

import { PurserError } from "../errors.ts";
import { signHmac } from "../lib/encoding.ts";

const TOLERANCE_SECONDS = 300;
const SIGNATURE = /^[0-9a-f]{64}$/;

/** The reasons why a request was not accepted as Stripe's (S5). */
export const SIGNATURE_FAULTS = ["header_missing", "header_malformed", "wrong_secret", "too_old"] as const;
export type SignatureFault = (typeof SIGNATURE_FAULTS)[number];

export class SignatureRefusal extends PurserError {
  readonly reason: SignatureFault;

  constructor(reason: SignatureFault, message: string) {
    super("invalid_signature", `The header \`Stripe-Signature\` ${message}.`, { param: "Stripe-Signature" });
    this.reason = reason;
  }
}

/**
 * Checks `Stripe-Signature` over the bytes received: one `t`, and one `v1` that is the HMAC-SHA-256 of `t.body` under one of
 * the secrets (S1). Throws a `SignatureRefusal`, `invalid_signature`.
 */
export async function checkSignature(
  header: string | undefined,
  body: Uint8Array,
  secrets: readonly string[],
  nowMs: number,
): Promise<void> {
  if (header === undefined) throw new SignatureRefusal("header_missing", "is missing: Stripe sends it");
  const fields = header.split(",").map((field) => field.trim().split("=", 2));
  const valuesOf = (name: string) => fields.flatMap(([key, value = ""]) => (key === name ? [value] : []));
  const [time = "", ...otherTimes] = valuesOf("t");
  if (!/^\d{1,12}$/.test(time) || otherTimes.length > 0) throw malformed("one `t`");
  const signatures = valuesOf("v1").filter((text) => SIGNATURE.test(text));
  // Without a well-formed signature nothing is hashed.
  if (signatures.length === 0) throw malformed("a `v1` of 64 hexadecimal digits");
  const prefix = new TextEncoder().encode(`${time}.`);
  const signed = new Uint8Array(prefix.length + body.length);
  signed.set(prefix);
  signed.set(body, prefix.length);
  let isSigned = false;
  for (const secret of secrets) {
    const mac = await signHmac(secret, signed);
    const expected = [...mac].map((byte) => byte.toString(16).padStart(2, "0")).join("");
    for (const signature of signatures) isSigned = isEqual(signature, expected) || isSigned;
  }
  if (!isSigned) {
    const advice = "does not verify. Set the endpoint's signing secret, and send the body unchanged";
    throw new SignatureRefusal("wrong_secret", advice);
  }
  if (Math.abs(Math.floor(nowMs / 1_000) - Number(time)) > TOLERANCE_SECONDS) {
    throw new SignatureRefusal("too_old", `is of a time more than ${TOLERANCE_SECONDS} seconds away`);
  }
}

/** Compares in constant time. The lengths are public. */
function isEqual(given: string, expected: string): boolean {
  if (given.length !== expected.length) return false;
  let difference = 0;
  for (let index = 0; index < expected.length; index++) {
    difference |= given.charCodeAt(index) ^ expected.charCodeAt(index);
  }
  return difference === 0;
}

const malformed = (what: string): SignatureRefusal =>
  new SignatureRefusal("header_malformed", `must be a signature of Stripe's, with ${what}`);

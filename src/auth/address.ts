import { readSettings } from "../settings.ts";

/** The address that all requests share when no platform reports a client's address. */
const UNKNOWN = "unknown";

/** The parts of a request's context that this file reads. A route's own context has more variables. */
export interface Sent {
  readonly env: Env;
  readonly req: { readonly header: (name: string) => string | undefined };
}

/**
 * Returns the address that a request counts for, as the platform reports it. Cloudflare sets `cf-connecting-ip` itself. A local
 * server passes on the caller's header, so there all requests share one address.
 */
export function addressOf(c: Sent): string {
  if (!readSettings(c.env).isBehindCloudflare) return UNKNOWN;
  const address = c.req.header("cf-connecting-ip") ?? "";
  return address === "" ? UNKNOWN : networkOf(address);
}

/**
 * Returns an IPv4 address unchanged, and the first 64 bits of an IPv6 address, because a single customer has at least that whole
 * range.
 */
export function networkOf(address: string): string {
  if (!address.includes(":")) return address;
  const [before = "", after] = address.toLowerCase().split("::");
  const head = before.split(":").filter(Boolean);
  const tail = (after ?? "").split(":").filter(Boolean);
  const zeros = after === undefined ? 0 : Math.max(0, 8 - head.length - tail.length);
  const groups = [...head, ...Array<string>(zeros).fill("0"), ...tail];
  return `${groups
    .slice(0, 4)
    .map((group) => group.replace(/^0+(?=.)/, ""))
    .join(":")}::/64`;
}

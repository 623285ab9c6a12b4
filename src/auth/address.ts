import { readSettings } from "../settings.ts";

/** The address of all requests where no platform says which is whose. */
const UNKNOWN = "unknown";

/** The parts of a request's context that are read here. A route's own context has more variables. */
export interface Sent {
  readonly env: Env;
  readonly req: { readonly header: (name: string) => string | undefined };
}

/**
 * The address that a request counts for, by the platform's word. Cloudflare sets `cf-connecting-ip` itself. A local server hands
 * on what the caller sent, so there all requests are of one address.
 */
export function addressOf(c: Sent): string {
  if (!readSettings(c.env).isBehindCloudflare) return UNKNOWN;
  const address = c.req.header("cf-connecting-ip") ?? "";
  return address === "" ? UNKNOWN : networkOf(address);
}

/** An IPv4 address; of an IPv6 address its first 64 bits, because a single customer has at least all of these. */
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

import { PurserError } from "../errors.ts";
import { factory } from "../http/factory.ts";
import { rememberPerObject } from "../lib/memory.ts";
import { MINUTE_MS } from "../lib/time.ts";
import type { Runtime } from "../runtime.ts";
import { readSettings } from "../settings.ts";
import type { Key } from "./key.ts";
import { MinuteCounts, MinuteMemory, mayPass } from "./minute-counts.ts";

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

/** A request of which nothing has been read yet. */
type IncomingRequest = Sent & { readonly var: { readonly runtime: Runtime } };

/**
 * How many requests an address may send in a minute. The limit holds for each location of the platform where the platform
 * counts, otherwise for each isolate.
 */
const SHARES = {
  public: { binding: "PUBLIC_REQUESTS", aMinuteMax: 1_200 },
  stripe: { binding: "STRIPE_REQUESTS", aMinuteMax: 12_000 },
  /** Above the public share: requests with secret, relay and administration keys that the isolate does not know. */
  newKeys: { binding: "NEW_KEY_REQUESTS", aMinuteMax: 60 },
} as const;
type AddressShare = keyof typeof SHARES;

/** The kind of a key that is counted. */
type CountedArrival = { readonly kind: Key["kind"] | "admin" };

/** The counts and keys that an isolate remembers for a minute. They never decide whether a key is valid (W3a). */
class Arrivals {
  readonly counts = { public: new MinuteCounts(), stripe: new MinuteCounts(), newKeys: new MinuteCounts() };
  /** The addresses that have used up their public share. */
  readonly beyond = new MinuteMemory();
  /** The keys that were found valid, and the keys that the primary did not know. */
  readonly validKeys = new MinuteMemory();
  readonly unknownKeys = new MinuteMemory();
  /** The addresses that sent a valid secret or relay key. */
  readonly servers = new MinuteMemory();
}

const arrivalsOf = rememberPerObject(() => new Arrivals());

/**
 * Counts a request for its address. Returns the seconds to wait before the next try, or null when the request is within the
 * share.
 */
async function takeShare(c: IncomingRequest, share: AddressShare): Promise<number | null> {
  const { isolate, now } = c.var.runtime;
  const { binding, aMinuteMax } = SHARES[share];
  const address = addressOf(c);
  const isAllowed = await mayPass(c.env[binding], address);
  if (isAllowed !== null) return isAllowed ? null : MINUTE_MS / 1_000;
  const counts = arrivalsOf(isolate).counts[share];
  const nowMs = now();
  return counts.add(address, nowMs) > aMinuteMax ? counts.secondsLeft(address, nowMs) : null;
}

/** Returns the refusal of a request over the limit. PostHog's clients retry a 503, and drop their events on a 429. */
function tooMany(seconds: number, isCapture: boolean): PurserError {
  const message = "Too many requests from this address without a valid secret key. Try again in a minute.";
  const code = isCapture ? "temporarily_unavailable" : "rate_limited";
  return new PurserError(code, message, { headers: { "Retry-After": String(seconds) } });
}

/** Counts a request against the public share of its address. Throws when the share is used up (L2). */
export async function countArrival(c: IncomingRequest, isCapture = false): Promise<void> {
  const seconds = await takeShare(c, "public");
  const { isolate, now } = c.var.runtime;
  const { beyond } = arrivalsOf(isolate);
  if (seconds !== null) {
    beyond.note(addressOf(c), now() + seconds * 1_000);
    throw tooMany(seconds, isCapture);
  }
  beyond.forget(addressOf(c));
}

/** Counts every request of a route without a key, before anything of it is read (L2). */
export const limitArrivals = factory.createMiddleware(async (c, next) => {
  await countArrival(c);
  await next();
});

/** Counts requests to Stripe's route. Stripe sends the events of all its accounts from few addresses. */
export const limitStripe = factory.createMiddleware(async (c, next) => {
  const seconds = await takeShare(c, "stripe");
  if (seconds !== null) throw tooMany(seconds, false);
  await next();
});

/**
 * Counts a capture whose key stands in its body, unless the isolate knows the address by a server's key. Returns whether it
 * counted the request.
 */
export async function countCapture(c: IncomingRequest): Promise<boolean> {
  if (isOfServer(c)) return false;
  await countArrival(c, true);
  return true;
}

function isOfServer(c: IncomingRequest): boolean {
  const { isolate, now } = c.var.runtime;
  return arrivalsOf(isolate).servers.has(addressOf(c), now());
}

/**
 * Counts a request by its key, before anything else of it is read. A public or invalid key counts at once, another key when it
 * proves unknown. Above its public share, an address has a separate share for keys that the isolate does not know. Returns
 * whether it counted the request. Throws the errors of `countArrival`.
 */
export async function countKey(
  c: IncomingRequest,
  key: CountedArrival | null,
  text: string,
  isCapture: boolean,
): Promise<boolean> {
  if (key === null || key.kind === "publishable") {
    if (isCapture) return countCapture(c);
    await countArrival(c);
    return true;
  }
  const { isolate, now } = c.var.runtime;
  const { beyond, validKeys, unknownKeys } = arrivalsOf(isolate);
  const nowMs = now();
  // The code that refuses a key known to be invalid counts that request.
  if (!beyond.has(addressOf(c), nowMs) || validKeys.has(text, nowMs) || unknownKeys.has(text, nowMs)) return false;
  const seconds = await takeShare(c, "newKeys");
  if (seconds !== null) throw tooMany(seconds, isCapture);
  return false;
}

/** Returns whether the primary did not know a key in the last minute, so that it need not be asked again. */
export function isKnownInvalid(c: IncomingRequest, text: string): boolean {
  const { isolate, now } = c.var.runtime;
  return arrivalsOf(isolate).unknownKeys.has(text, now());
}

/** Remembers for a minute that a key is valid, or that the primary does not know it. A refusal from memory changes nothing. */
export function noteKeyCheck(c: IncomingRequest, key: CountedArrival, text: string, isValid: boolean): void {
  const { isolate, now } = c.var.runtime;
  const { validKeys, unknownKeys, servers } = arrivalsOf(isolate);
  const untilMs = now() + MINUTE_MS;
  if (!isValid) {
    validKeys.forget(text);
    if (!unknownKeys.has(text, now())) unknownKeys.note(text, untilMs);
  } else if (key.kind !== "publishable") {
    validKeys.note(text, untilMs);
    if (key.kind !== "admin") servers.note(addressOf(c), untilMs);
  }
}

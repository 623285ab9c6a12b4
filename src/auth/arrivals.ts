import type { Key } from "../db/key-form.ts";
import { PurserError } from "../errors.ts";
import { rememberPerObject } from "../lib/bounded-memory.ts";
import { MINUTE_MS } from "../lib/time.ts";
import type { Caller, Runtime } from "../runtime.ts";
import { readSettings } from "../settings.ts";
import { MinuteCounts, MinuteMemory, mayPass } from "./minute-counts.ts";

/** The address that all requests share when the platform reports no client address. */
const UNKNOWN = "unknown";

/** A request before its key is read. */
export interface IncomingRequest {
  readonly env: Env;
  readonly runtime: Runtime;
  readonly request: Request;
}

/**
 * Returns the address for which a request is counted. Cloudflare sets `cf-connecting-ip` itself. A local server accepts this
 * header from the caller, so there all requests share one address.
 */
export function readAddress({ env, request }: IncomingRequest): string {
  if (!readSettings(env).isBehindCloudflare) return UNKNOWN;
  const address = request.headers.get("cf-connecting-ip") ?? "";
  return address === "" ? UNKNOWN : maskAddress(address);
}

/**
 * Returns an IPv4 address unchanged, and the first 64 bits of an IPv6 address, because one customer can use all addresses with
 * the same first 64 bits.
 */
export function maskAddress(address: string): string {
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

/** Returns the first 48 bits of an IPv6 address of `readAddress`: a customer may have all addresses with them. Null for others. */
const networkOf = (address: string): string | null => /^(.*):\w+::\/64$/.exec(address)?.[1] ?? null;

/** The shares that all addresses of a network have together (L2). */
const SHARES_OF_NETWORK = 16;

/**
 * How many requests an address may send in a minute. Where the platform counts requests, the limit applies to each of its
 * locations, otherwise to each isolate.
 */
const SHARES = {
  public: { binding: "PUBLIC_REQUESTS", aMinuteMax: 1_200 },
  stripe: { binding: "STRIPE_REQUESTS", aMinuteMax: 12_000 },
  /**
   * For an address that has used up its public share: requests with secret, relay and administration keys that the isolate
   * does not know.
   */
  newKeys: { binding: "NEW_KEY_REQUESTS", aMinuteMax: 60 },
} as const;
type AddressShare = keyof typeof SHARES;

/** A key by which a request is counted. */
type CountedKey = { readonly kind: Key["kind"] | "admin" };

/** The counts and keys that an isolate remembers for a minute. They never decide whether a key is valid (W3a). */
class Arrivals {
  readonly counts = { public: new MinuteCounts(), stripe: new MinuteCounts(), newKeys: new MinuteCounts() };
  /** Apart from the addresses, of which a network has enough to push out every older count. */
  readonly networks = { public: new MinuteCounts(), stripe: new MinuteCounts(), newKeys: new MinuteCounts() };
  /** The addresses that have used up their public share. */
  readonly overShare = new MinuteMemory();
  /** The valid keys, and the keys that the primary database did not know. */
  readonly validKeys = new MinuteMemory();
  readonly unknownKeys = new MinuteMemory();
  /** The addresses that sent a valid secret or relay key. */
  readonly servers = new MinuteMemory();
}

const arrivalsOf = rememberPerObject(() => new Arrivals());

/**
 * Counts a request for its address, `times` times. Returns the seconds to wait before the next try, or null when the request is within the
 * share.
 */
async function takeShare(incoming: IncomingRequest, share: AddressShare, times = 1): Promise<number | null> {
  const { isolate, now } = incoming.runtime;
  const { binding, aMinuteMax } = SHARES[share];
  const address = readAddress(incoming);
  const nowMs = now();
  const arrivals = arrivalsOf(isolate);
  const [network, networks] = [networkOf(address), arrivals.networks[share]];
  if (network !== null && networks.add(network, nowMs, times) > SHARES_OF_NETWORK * aMinuteMax) {
    return networks.secondsLeft(network, nowMs);
  }
  for (let count = 1; count <= times; count++) {
    const isAllowed = await mayPass(incoming.env[binding], address);
    if (isAllowed === null) break;
    if (!isAllowed) return MINUTE_MS / 1_000;
    if (count === times) return null;
  }
  const counts = arrivals.counts[share];
  return counts.add(address, nowMs, times) > aMinuteMax ? counts.secondsLeft(address, nowMs) : null;
}

/** Returns the rejection of a request over the limit. PostHog's clients retry a 503, and drop their events on a 429. */
function tooMany(seconds: number, isCapture: boolean): PurserError {
  const message = "Too many requests from this address without a valid secret key. Try again in a minute.";
  const code = isCapture ? "temporarily_unavailable" : "rate_limited";
  return new PurserError(code, message, { headers: { "Retry-After": String(seconds) } });
}

/** Counts a request against the public share of its address. Throws when the share is used up (L2). */
export async function countArrival(incoming: IncomingRequest, isCapture = false, times = 1): Promise<void> {
  const seconds = await takeShare(incoming, "public", times);
  const { isolate, now } = incoming.runtime;
  const { overShare } = arrivalsOf(isolate);
  if (seconds !== null) {
    overShare.note(readAddress(incoming), now() + seconds * 1_000);
    throw tooMany(seconds, isCapture);
  }
  overShare.forget(readAddress(incoming));
}

/** Counts a request to Stripe's route. Stripe sends the events of all its accounts from few addresses. */
export async function countStripe(incoming: IncomingRequest): Promise<void> {
  const seconds = await takeShare(incoming, "stripe");
  if (seconds !== null) throw tooMany(seconds, false);
}

/**
 * Counts a capture request with its key in the body, unless the address has just sent a valid secret or relay key. Returns whether
 * it counted the request.
 */
export async function countCapture(incoming: IncomingRequest): Promise<boolean> {
  if (isServer(incoming)) return false;
  await countArrival(incoming, true);
  return true;
}

/** The events of a capture request that its one count on arrival covers, and those that each further count covers. */
const EVENTS_OF_A_COUNT = 10;

/**
 * Counts a capture request with a publishable key once more for each ten events beyond ten, before they are stored (L2). Throws
 * when the share is used up.
 */
export async function countEvents(incoming: IncomingRequest, caller: Caller, events: number): Promise<void> {
  const times = Math.floor(events / EVENTS_OF_A_COUNT) - 1;
  if (times > 0 && caller.kind === "publishable" && !isServer(incoming)) await countArrival(incoming, true, times);
}

function isServer(incoming: IncomingRequest): boolean {
  const { isolate, now } = incoming.runtime;
  return arrivalsOf(isolate).servers.has(readAddress(incoming), now());
}

/**
 * Counts a request by its key, before anything else is read. A request with a publishable or malformed key is counted here. A
 * request with another key is counted only if the key is later found to be unknown. When an address has used up its public
 * share, keys that the isolate does not know have a separate share. Returns whether it counted the request. Throws the errors
 * of `countArrival`.
 */
export async function countKey(
  incoming: IncomingRequest,
  key: CountedKey | null,
  text: string,
  isCapture: boolean,
): Promise<boolean> {
  if (key === null || key.kind === "publishable") {
    if (isCapture) return countCapture(incoming);
    await countArrival(incoming);
    return true;
  }
  const { isolate, now } = incoming.runtime;
  const { overShare, validKeys, unknownKeys } = arrivalsOf(isolate);
  const nowMs = now();
  // If the key is known to be invalid, the code that rejects it counts the request.
  if (!overShare.has(readAddress(incoming), nowMs) || validKeys.has(text, nowMs) || unknownKeys.has(text, nowMs))
    return false;
  const seconds = await takeShare(incoming, "newKeys");
  if (seconds !== null) throw tooMany(seconds, isCapture);
  return false;
}

/** Returns whether the primary database did not know a key within the last minute. Then it is not asked again. */
export function isKnownInvalid(incoming: IncomingRequest, text: string): boolean {
  const { isolate, now } = incoming.runtime;
  return arrivalsOf(isolate).unknownKeys.has(text, now());
}

/**
 * Remembers for a minute that a key is valid or unknown. A rejection that itself comes from this memory does not prolong the
 * minute.
 */
export function noteKeyCheck(incoming: IncomingRequest, key: CountedKey, text: string, isValid: boolean): void {
  const { isolate, now } = incoming.runtime;
  const { validKeys, unknownKeys, servers } = arrivalsOf(isolate);
  const untilMs = now() + MINUTE_MS;
  if (!isValid) {
    validKeys.forget(text);
    if (!unknownKeys.has(text, now())) unknownKeys.note(text, untilMs);
  } else if (key.kind !== "publishable") {
    validKeys.note(text, untilMs);
    if (key.kind !== "admin") servers.note(readAddress(incoming), untilMs);
  }
}

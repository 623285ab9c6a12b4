import { PurserError } from "../errors.ts";
import type { Runtime } from "../runtime.ts";
import { addressOf, type Sent } from "./address.ts";
import { countsOfIsolates, mayPass } from "./minute-counts.ts";

const REQUESTS_A_MINUTE_MAX = 1_200;
const MINUTE_SECONDS = 60;

const requestsOf = countsOfIsolates();

/**
 * Counts a request with a publishable key, which is public, or with a key that nobody was given (L2). Throws `rate_limited`
 * for more than 1,200 a minute of one address: of a place of the platform where it counts, else of this isolate.
 */
export async function limitRequests(c: Sent & { readonly var: { readonly runtime: Runtime } }): Promise<void> {
  const { isolate, now } = c.var.runtime;
  const address = addressOf(c);
  const isLetThrough = await mayPass(c.env.PUBLIC_REQUESTS, address);
  if (isLetThrough === true) return;
  if (isLetThrough === false) throw tooMany(MINUTE_SECONDS);
  const requests = requestsOf(isolate);
  const nowMs = now();
  if (requests.add(address, nowMs) > REQUESTS_A_MINUTE_MAX) throw tooMany(requests.secondsLeft(address, nowMs));
}

function tooMany(seconds: number): PurserError {
  const message = "Too many requests of this address with publishable or unknown keys. Try again in a minute.";
  return new PurserError("rate_limited", message, { headers: { "Retry-After": String(seconds) } });
}

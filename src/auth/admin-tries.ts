import { PurserError } from "../errors.ts";
import { equalSecrets } from "../lib/hash.ts";
import type { Runtime } from "../runtime.ts";
import { addressOf, type Sent } from "./address.ts";
import { MinuteCounts, mayPass, ofIsolates } from "./minute-counts.ts";

const FAILURES_A_MINUTE_MAX = 10;

/** No token that is sent by mistake is longer, and none is hashed. */
const CHARACTERS_MAX = 1_000;

const failuresOf = ofIsolates(() => new MinuteCounts());

/**
 * Whether `given` is the administrator's token. An address that failed ten times in a minute is refused with `rate_limited`,
 * also with the right token, so that it learns nothing (L2). Failures are counted by the platform, and in the isolate.
 */
export async function isAdminToken(
  c: Sent & { readonly var: { readonly runtime: Runtime } },
  given: string,
  adminToken: string,
): Promise<boolean> {
  const { isolate, now } = c.var.runtime;
  const nowMs = now();
  const address = addressOf(c);
  const failures = failuresOf(isolate);
  const refuse = () => {
    const seconds = failures.secondsLeft(address, nowMs);
    const message = `Too many attempts with a wrong admin token. Try again in ${seconds} ${seconds === 1 ? "second" : "seconds"}.`;
    return new PurserError("rate_limited", message, { headers: { "Retry-After": String(seconds) } });
  };
  const isShort = given.length <= Math.max(CHARACTERS_MAX, adminToken.length);
  const isRight = isShort && (await equalSecrets(given, adminToken));
  // Nothing is awaited from here to the count, so of guesses that come at once no more than ten are answered.
  if (failures.count(address, nowMs) >= FAILURES_A_MINUTE_MAX) throw refuse();
  if (isRight) return true;
  failures.add(address, nowMs);
  if ((await mayPass(c.env.ADMIN_TRIES, address)) !== false) return false;
  // Other isolates saw the others of its failures.
  failures.add(address, nowMs, FAILURES_A_MINUTE_MAX);
  throw refuse();
}

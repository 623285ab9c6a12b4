import { errorOf, PurserError } from "./errors.ts";
import type { CallOptions } from "./operation.ts";
import type { Request } from "./request.ts";

export interface PurserSettings {
  /** The address of Purser, such as `https://purser.example.com`. */
  readonly url: string;
  /** A secret key, a publishable key, or the administrator's token for the operations of administration. */
  readonly key: string;
  /**
   * With a publishable key: the user's JWT from your own sign-in, or a function that returns it. It may return null or undefined
   * while nobody is signed in.
   */
  readonly userToken?: string | (() => string | null | undefined | Promise<string | null | undefined>);
  /** How often a call is retried. Default 4. */
  readonly retries?: number;
  /** How many milliseconds one try may take. Default 30,000. */
  readonly timeoutMs?: number;
  /**
   * Called with each warning: a sentence about input that Purser accepted but that looks like a mistake. By default
   * `console.warn` prints each sentence once.
   */
  readonly onWarning?: (warning: string, of: { readonly operation: string; readonly requestId: string | null }) => void;
  /** Replaces the global `fetch`. */
  readonly fetch?: (url: string, init: RequestInit) => Promise<Response>;
}

/** The values that a client keeps between its calls. */
export interface Memory {
  bookmark: string | null;
}

const PAUSE_MS = 100;
/** The longest `Retry-After` that the client waits for. If it is longer, the call throws the error at once. */
const RETRY_AFTER_MS_MAX = 60_000;

const wait = (ms: number, signal: AbortSignal | undefined): Promise<void> =>
  new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason);
    const stop = () => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", stop);
      resolve();
    }, ms);
    signal?.addEventListener("abort", stop, { once: true });
  });

/** Returns how many milliseconds the response tells the client to wait. Null if it does not say. */
function retryAfterMs(headers: Headers): number | null {
  const text = headers.get("retry-after");
  if (text === null) return null;
  const ms = /^\d+$/.test(text) ? Number(text) * 1_000 : Date.parse(text) - Date.now();
  return Number.isNaN(ms) ? null : Math.max(ms, 0);
}

const printedWarnings = new Set<string>();

function warnOnce(warning: string, { operation, requestId }: { operation: string; requestId: string | null }): void {
  if (printedWarnings.has(warning)) return;
  printedWarnings.add(warning);
  console.warn(`Purser, ${operation} (${requestId}): ${warning}`);
}

/** The result of one try: a value or an error. */
interface Outcome {
  readonly value?: unknown;
  readonly error?: PurserError;
  /** How long to wait before a retry; null if a retry would not help. */
  readonly pauseMs: number | null;
}

const KINDS: Readonly<Record<string, string>> = {
  sk: "a secret key, sk_…",
  pk: "a publishable key, pk_…",
  rk: "a relay key, rk_…",
  admin: "the administrator's token or an administration key",
};

/** Whether a header can carry a text. If not, the error of `fetch` would show the text. */
export const fitsHeader = (text: string): boolean => /^[ -\u00ff]*$/.test(text.trim());

/** Throws `TypeError` for a key that the operation never accepts, and for a token that no header carries. */
function assertKey({ operation, keys, takesUserToken }: Request, key: string, token: string | undefined): void {
  const kind = /^(sk|pk|rk)_/.exec(key)?.[1] ?? "admin";
  const accepted = keys.split(" ");
  if (keys !== "" && !accepted.includes(kind)) {
    const needed = accepted.map((name) => KINDS[name]).join(", or ");
    throw new TypeError(`${operation} needs ${needed}. This client has ${KINDS[kind]}.`);
  }
  if (kind === "pk" && takesUserToken === true && token === undefined) {
    throw new TypeError(`${operation} with a publishable key needs userToken: the user's JWT from your own sign-in.`);
  }
  if (token !== undefined && !fitsHeader(token))
    throw new TypeError(`${operation}: userToken is no JWT: it has characters that no header carries.`);
}

/** A string, or a number with more than 15 digits or an exponent. A double represents all other numbers. */
const STRING_OR_LONG_NUMBER = /"(?:[^"\\]|\\.)*"|-?\d[\d.]{15,}(?:[eE][+-]?\d+)?/g;

/** Returns the digits of a decimal from the first to the last that is not 0. */
const significantDigits = (decimal: string): string =>
  decimal
    .replace(/[eE].*$/, "")
    .replace(/[.-]/g, "")
    .replace(/^0+|0+$/g, "");

/** Parses JSON. A number that a double would round becomes a string with all its digits. Returns null for other text. */
function jsonIn(text: string): unknown {
  const exact = text.replace(STRING_OR_LONG_NUMBER, (found) => {
    const isExact = found.startsWith('"') || significantDigits(String(Number(found))) === significantDigits(found);
    return isExact ? found : `"${found}"`;
  });
  try {
    return JSON.parse(exact);
  } catch {
    return null;
  }
}

/** Returns why no response came: the platform's code, such as `ECONNREFUSED`, or the message of the innermost cause. */
function reasonOf(error: unknown): string {
  let inner = error;
  while (inner instanceof Error && inner.cause instanceof Error) inner = inner.cause;
  if (!(inner instanceof Error)) return String(inner);
  return "code" in inner && typeof inner.code === "string" ? inner.code : inner.message;
}

/** Adds the fields of `Answer`, which JSON and copies of the response do not have. */
function withAnswer(value: object, response: Response): object {
  const about = {
    requestId: response.headers.get("x-request-id"),
    isReplayed: response.headers.get("idempotent-replayed") === "true",
    response,
  };
  for (const [name, field] of Object.entries(about)) {
    if (!(name in value)) Object.defineProperty(value, name, { value: field, enumerable: false });
  }
  return value;
}

async function tryOnce(
  settings: PurserSettings,
  memory: Memory,
  request: Request,
  { signal, userToken, ifLatestAuditEntry }: CallOptions,
  ownPauseMs: number,
): Promise<Outcome> {
  const { operation, method, path, body, isRepeatable } = request;
  const timeout = AbortSignal.timeout(settings.timeoutMs ?? 30_000);
  const token =
    userToken ??
    (typeof settings.userToken === "function" ? await settings.userToken() : settings.userToken) ??
    undefined;
  assertKey(request, settings.key, token);
  const headers = {
    authorization: `Bearer ${settings.key}`,
    ...(body === null ? {} : { "content-type": "application/json" }),
    ...(token === undefined ? {} : { "x-user-token": token }),
    ...(ifLatestAuditEntry === undefined ? {} : { "if-latest-audit-entry": String(ifLatestAuditEntry) }),
    ...(method === "GET" && memory.bookmark !== null ? { "x-d1-bookmark": memory.bookmark } : {}),
  };
  const signals = signal === undefined ? timeout : AbortSignal.any([signal, timeout]);
  // After a redirect, another host would get the user's token and the body.
  const init: RequestInit = { method, headers, body, signal: signals, redirect: "manual" };
  let response: Response;
  let value: unknown;
  try {
    const url = settings.url.replace(/\/+$/, "") + path;
    // The global `fetch` must be called as a method of the global object.
    response = await (settings.fetch === undefined ? fetch(url, init) : settings.fetch(url, init));
    const text = await response.text();
    value = request.answersText ? text : jsonIn(text);
  } catch (cause) {
    if (signal?.aborted) throw signal.reason;
    const error = new PurserError(
      0,
      {
        code: "no_answer",
        message: `${method} ${path.split("?")[0]} got no answer from ${new URL(settings.url).host}: ${reasonOf(cause)}.`,
      },
      { cause },
    );
    return { error, pauseMs: isRepeatable ? ownPauseMs : null };
  }
  // Bookmarks sort as texts in the order of the database's states.
  const bookmark = response.headers.get("x-d1-bookmark");
  if (bookmark !== null && bookmark > (memory.bookmark ?? "")) memory.bookmark = bookmark;
  const warnings = response.headers.get("purser-warning")?.split(/(?<=\.) /) ?? [];
  const requestId = response.headers.get("x-request-id");
  for (const warning of warnings) (settings.onWarning ?? warnOnce)(warning, { operation, requestId });
  const waitMs = retryAfterMs(response.headers);
  const pauseMs = waitMs !== null && waitMs <= RETRY_AFTER_MS_MAX ? Math.max(waitMs, ownPauseMs) : null;
  // A list of events has status 200, and asks for a retry when one of its events met a temporary fault.
  if (response.ok && request.answersText) return { value, pauseMs: null };
  if (response.ok && typeof value === "object" && value !== null)
    return { value: withAnswer(value, response), pauseMs };
  const error = errorOf(response.status, value);
  // A request that is rejected with 429 has no effect. A request that gets a 503 may have had one.
  if (response.status === 429 || (response.status === 503 && isRepeatable)) return { error, pauseMs };
  const isGateway = error.code === "unknown_answer" && response.status >= 500;
  return { error, pauseMs: isGateway && isRepeatable ? (pauseMs ?? ownPauseMs) : null };
}

/** Sends a request, and retries where that may help and is safe. Throws `PurserError`, or the reason of the signal. */
export async function send(
  settings: PurserSettings,
  memory: Memory,
  request: Request,
  options: CallOptions = {},
): Promise<unknown> {
  const retries = settings.retries ?? 4;
  let mayBeDone = false;
  for (let attempt = 0; ; attempt++) {
    options.signal?.throwIfAborted();
    const ownPauseMs = PAUSE_MS * 2 ** attempt * (0.5 + Math.random());
    const { value, error, pauseMs } = await tryOnce(settings, memory, request, options, ownPauseMs);
    // The response to an earlier try was lost, and that try deleted the object.
    if (mayBeDone && request.method === "DELETE" && error?.code === "not_found") return {};
    mayBeDone ||= error !== undefined && error.status !== 429;
    if (pauseMs !== null && attempt < retries) {
      await wait(pauseMs, options.signal);
      continue;
    }
    if (error !== undefined) throw error;
    return value;
  }
}

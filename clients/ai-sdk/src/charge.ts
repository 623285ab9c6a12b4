import { type Output, PurserError } from "purser-client";
import type { Meters } from "purser-client/meters";
import type { MiddlewareSettings } from "./settings.ts";

/** A reservation of one call. It is committed or released once: a later commit or release does nothing. */
export interface Charge {
  /** The meters that are reserved. */
  readonly held: Meters;
  /** Commits what was used. Never rejects: if the commit fails, the reservation is charged when it expires. */
  readonly commit: (meters: Meters, modelId: string) => Promise<void>;
  /** Whether it is neither committed nor released. */
  readonly isOpen: () => boolean;
  /** Returns the credits. Never rejects. */
  readonly release: () => Promise<void>;
  readonly warn: (warning: string) => void;
}

export interface ChargeOptions {
  readonly eventId: string;
  readonly modelId: string;
  readonly held: Meters;
  /** Whether to extend the reservation. */
  readonly isRunning: () => boolean;
}

const EXPIRES_IN_SECONDS = 300;
/** How long an answer waits for its commit. A commit that takes longer goes on in the background. */
const COMMIT_WAIT_MS = 5_000;

const codeOf = (error: unknown): string => (error instanceof PurserError ? error.code : String(error));

/** Rejects with the signal's reason as soon as it aborts. */
export function orAborted<Value>(promise: Promise<Value>, signal: AbortSignal | undefined): Promise<Value> {
  if (signal === undefined) return promise;
  return new Promise((resolve, reject) => {
    const stop = () => reject(signal.reason);
    if (signal.aborted) stop();
    signal.addEventListener("abort", stop, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener("abort", stop));
  });
}

function waited(promise: Promise<void>): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, COMMIT_WAIT_MS);
    promise.then(resolve).finally(() => clearTimeout(timer));
  });
}

/** Returns the functions that send a charge's requests, each with the same ids. */
function requestsOf(settings: MiddlewareSettings, { eventId, modelId, held }: ChargeOptions) {
  const { purser, properties, quantities, modelName = (id) => id, onCharged, onWarning } = settings;
  const expiresInSeconds = settings.expiresInSeconds ?? EXPIRES_IN_SECONDS;
  const reservationId = `res_${crypto.randomUUID()}`;
  const warn = (warning: string) =>
    onWarning === undefined ? console.warn(`purser-ai-sdk: ${warning}`) : onWarning(warning, eventId);
  const priced = (meters: Meters, id: string) => {
    const model = modelName(id);
    return { model, ...(quantities === undefined ? { meters } : { quantities: quantities(meters, model) }) };
  };
  const release = async (): Promise<void> => {
    try {
      await purser.releaseReservation({ reservationId });
    } catch (error) {
      if (codeOf(error) !== "reservation_not_found")
        warn(`A reservation was not released (${codeOf(error)}). If it stands, it is charged when it expires.`);
    }
  };
  const reserve = () => {
    const { userId, memberId, event } = settings;
    const reservation = { reservationId, userId, ...(memberId !== undefined && { memberId }), event, expiresInSeconds };
    // If this process ends, the provider may have done the work all the same.
    return purser.createReservation({ ...reservation, ...priced(held, modelId), onExpiry: "charge" });
  };
  const tellCharged = (usage: Output<"commitReservation">) => {
    try {
      onCharged?.(usage);
    } catch (error) {
      warn(`The call was charged, and then onCharged threw: ${error}.`);
    }
  };
  const commit = async (meters: Meters, id: string): Promise<void> => {
    try {
      const fields = { reservationId, eventId, onShortage: "partial", ...(properties && { properties }) } as const;
      tellCharged(await purser.commitReservation({ ...fields, ...priced(meters, id) }));
    } catch (error) {
      if (codeOf(error) !== "idempotency_conflict")
        return warn(`The commit failed (${codeOf(error)}), so what was reserved is charged when it expires.`);
      await release();
      warn("This event id was charged before, so the call is not charged. Give each call its own event id.");
    }
  };
  const extend = () => purser.extendReservation({ reservationId, expiresInSeconds }).catch(() => undefined);
  return { warn, reserve, release, commit, extend, extendEveryMs: expiresInSeconds * 500 };
}

/**
 * Reserves the credits of a call. Rejects with Purser's error, or with the signal's reason. Then credits that may be reserved all the
 * same return in the background, because the provider was not asked.
 */
export async function openCharge(
  settings: MiddlewareSettings,
  options: ChargeOptions,
  signal: AbortSignal | undefined,
): Promise<Charge> {
  const { warn, reserve, release, commit, extend, extendEveryMs } = requestsOf(settings, options);
  const inBackground = (promise: Promise<void>): Promise<void> => {
    settings.waitUntil?.(promise);
    return promise;
  };
  signal?.throwIfAborted();
  const reserving = reserve();
  try {
    await orAborted(reserving, signal);
  } catch (error) {
    const isRejected = error instanceof PurserError && error.status >= 400 && error.status < 500;
    if (!isRejected) inBackground(reserving.then(release, release));
    throw error;
  }
  const timer = setInterval(() => options.isRunning() && extend(), extendEveryMs);
  let ending: Promise<void> | undefined;
  const end = (work: () => Promise<void>): Promise<void> => {
    clearInterval(timer);
    ending ??= inBackground(work());
    return waited(ending);
  };
  return {
    held: options.held,
    warn,
    isOpen: () => ending === undefined,
    release: () => end(release),
    commit: (meters, id) => end(() => commit(meters, id)),
  };
}

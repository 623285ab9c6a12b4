import type { Operations } from "./generated/operations.ts";
import type { Input, Schemas } from "./operation.ts";

type Quantities = Input<"commitReservation">["quantities"];

/** A reservation to make, and what its commit is to say. */
export interface HoldInput extends Input<"createReservation"> {
  /** The id of the usage event. Made where none is given. */
  readonly eventId?: string;
  readonly properties?: Input<"commitReservation">["properties"];
  /** When it aborts, what was used until then is committed. */
  readonly signal?: AbortSignal;
  /** When the work throws: `release` gives everything back, `commit` charges what it had used by then. Default: `release`. */
  readonly onError?: "release" | "commit";
}

/** Credits that are set aside while work runs. */
export interface Hold {
  readonly reservationId: string;
  readonly eventId: string;
  readonly holds: Schemas["CreatedReservation"]["holds"];
  /** Says what was used so far, in all. The last word counts. */
  readonly used: (quantities: Quantities) => void;
}

/** The answer of the work, and what it was charged. */
export interface Held<Result> {
  readonly result: Result;
  readonly usage: Schemas["UsageEventResult"];
}

export type HoldUsage = <Result>(
  input: HoldInput,
  work: (hold: Hold) => Result | Promise<Result>,
) => Promise<Held<Result>>;

type Reserving = Pick<
  Operations,
  "createReservation" | "extendReservation" | "commitReservation" | "releaseReservation"
>;

const EXPIRES_IN_SECONDS = 300;

/** Extends the reservation twice in its time, until it is told to stop. */
function keepOpen(purser: Reserving, reservationId: string, expiresInSeconds: number): () => void {
  // A commit after the end still counts, so an extension that fails is no reason to stop the work.
  const extend = () => purser.extendReservation({ reservationId, expiresInSeconds }).catch(() => undefined);
  const timer = setInterval(extend, (expiresInSeconds * 1_000) / 2);
  return () => clearInterval(timer);
}

const isAbort = (error: unknown, signal: AbortSignal | undefined): boolean =>
  signal?.aborted === true || (error instanceof Error && error.name === "AbortError");

/**
 * Reserves `quantities`, runs `work` and commits what it said was used. The reservation is extended while `work` runs. When
 * `work` fails, the credits are released, or with `onError: "commit"` what it used is committed; when it was aborted, what was used
 * until then is committed. Throws
 * `InsufficientCredits` before `work` begins, and whatever `work` throws.
 */
export async function holdUsage<Result>(
  purser: Reserving,
  { eventId = crypto.randomUUID(), properties, signal, onError = "release", ...reservation }: HoldInput,
  work: (hold: Hold) => Result | Promise<Result>,
): Promise<Held<Result>> {
  signal?.throwIfAborted();
  const { reservationId, holds } = await purser.createReservation(reservation);
  const last: { used?: Quantities } = {};
  const commit = (quantities: Quantities) =>
    // The work is done: what the balances do not cover is told in `uncovered`, and the rest is paid.
    purser.commitReservation({
      reservationId,
      eventId,
      quantities,
      onShortage: "partial",
      ...(properties === undefined ? {} : { properties }),
    });
  const used = (quantities: Quantities) => {
    last.used = quantities;
  };
  const stop = keepOpen(purser, reservationId, reservation.expiresInSeconds ?? EXPIRES_IN_SECONDS);
  let result: Result;
  try {
    signal?.throwIfAborted();
    result = await work({ reservationId, eventId, holds, used });
    if (last.used === undefined) throw new TypeError("Say what was used: hold.used({ tokens: 812 }).");
  } catch (error) {
    if (last.used !== undefined && (onError === "commit" || isAbort(error, signal))) await commit(last.used);
    // What cannot be released returns when the reservation expires.
    else await purser.releaseReservation({ reservationId }).catch(() => undefined);
    throw error;
  } finally {
    stop();
  }
  return { result, usage: await commit(last.used) };
}

import type { Operations } from "./generated/operations.ts";
import type { Input, Schemas } from "./operation.ts";
import { assertNumbers } from "./request.ts";

type Quantities = NonNullable<Input<"commitReservation">["quantities"]>;

/** Usage by meter, which the price list turns into quantities, such as `{ meters: metersOf(usage) }`. */
export interface MeteredUsage {
  readonly meters: NonNullable<Input<"commitReservation">["meters"]>;
}

/** A reservation to make, with the fields of its commit. */
export interface HoldInput extends Input<"createReservation"> {
  /** The id of the usage event. The client makes one if it is absent. */
  readonly eventId?: string;
  readonly properties?: Input<"commitReservation">["properties"];
  /** The work does not begin once it has aborted. */
  readonly signal?: AbortSignal;
  /**
   * The action when the work throws, an abort included: `commit` charges the usage that was reported before, `release` returns all
   * credits. Default: `commit`.
   */
  readonly onError?: "commit" | "release";
}

/** Credits that are reserved while work runs. */
export interface Hold {
  readonly reservationId: string;
  readonly eventId: string;
  readonly holds: Schemas["CreatedReservation"]["holds"];
  /**
   * Reports the total usage so far, and the model if it is not the reserved one. The latest report counts. Throws `TypeError` when the
   * work has ended, because the usage would be lost.
   */
  readonly used: (usage: Quantities | MeteredUsage, model?: string) => void;
}

/** The result of the work, the response of the commit, and the quantities that no balance paid for. */
export interface Held<Result> {
  readonly result: Result;
  readonly usage: Schemas["UsageEventResult"];
  /** Null when the credits covered the usage. */
  readonly uncovered: Schemas["UsageEventResult"]["uncovered"];
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

/** Extends the reservation twice in each period, until the returned function is called. */
function keepOpen(purser: Reserving, reservationId: string, expiresInSeconds: number): () => void {
  // A commit after the expiry still counts, so a failed extension does not stop the work.
  const extend = () => purser.extendReservation({ reservationId, expiresInSeconds }).catch(() => undefined);
  const timer = setInterval(extend, (expiresInSeconds * 1_000) / 2);
  return () => clearInterval(timer);
}

/**
 * Reserves `quantities` or `meters`, runs `work` and commits the reported usage. Extends the reservation while `work` runs. When `work` throws,
 * commits what it reported before; releases the credits if it reported nothing, or with `onError: "release"`. Throws
 * `InsufficientCredits` before `work` begins, and any error of `work`. If the commit fails for good after that, the reservation ends
 * by its `onExpiry`.
 */
export async function holdUsage<Result>(
  purser: Reserving,
  { eventId = crypto.randomUUID(), properties, signal, onError = "commit", ...reservation }: HoldInput,
  work: (hold: Hold) => Result | Promise<Result>,
): Promise<Held<Result>> {
  signal?.throwIfAborted();
  // The commit is rejected for these too, but the work would be done by then.
  assertNumbers("usage.hold", properties, "properties");
  const { reservationId, holds } = await purser.createReservation(reservation);
  type Used = ({ readonly quantities: Quantities } | MeteredUsage) & { readonly model?: string };
  const last: { used?: Used; hasEnded?: true } = {};
  const commit = (used: Used) =>
    // The work is done, so the balances pay as much as they can. `uncovered` is the rest.
    purser.commitReservation({
      reservationId,
      eventId,
      ...used,
      onShortage: "partial",
      ...(properties === undefined ? {} : { properties }),
    });
  const used: Hold["used"] = (usage, model) => {
    if (last.hasEnded) throw new TypeError("The hold has ended: this usage would be lost.");
    assertNumbers("hold.used", usage);
    last.used = { ...("meters" in usage ? usage : { quantities: usage }), ...(model === undefined ? {} : { model }) };
  };
  const stop = keepOpen(purser, reservationId, reservation.expiresInSeconds ?? EXPIRES_IN_SECONDS);
  let result: Result;
  try {
    signal?.throwIfAborted();
    result = await (async () => work({ reservationId, eventId, holds, used }))().finally(() => {
      last.hasEnded = true;
    });
    if (last.used === undefined)
      throw new TypeError("The work did not report its usage. Call hold.used({ tokens: 812 }).");
  } catch (error) {
    const ending =
      last.used !== undefined && onError === "commit"
        ? commit(last.used)
        : purser.releaseReservation({ reservationId });
    // The caller needs the error of the work. A reservation that could not be ended expires.
    await ending.catch(() => undefined);
    throw error;
  } finally {
    stop();
  }
  const usage = await commit(last.used);
  return { result, usage, uncovered: usage.uncovered };
}

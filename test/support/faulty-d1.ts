import { isSoak } from "./soak.ts";
import { type Travel, wrappedD1 } from "./wrapped-d1.ts";

/**
 * The faults of a trip to D1: it fails before anything is done; it fails before the commit; its answer is lost after the
 * commit; or D1's queue is full.
 */
const ALL_FAULTS = ["before", "amid", "after", "overloaded"] as const;
type Fault = (typeof ALL_FAULTS)[number];
/** A trip that fails before anything is done looks to Purser like one whose batch is rolled back, so only the soak has both. */
export const FAULTS: readonly Fault[] = ALL_FAULTS.filter((fault) => isSoak || fault !== "before");
/** The trip never returns, as if the isolate had ended or the caller had left. It fails before or after the commit. */
type Silence = "silent before" | "silent after";

export interface FaultPlan {
  readonly fault: Fault | Silence;
  /** D1's error message, instead of a lost connection. */
  readonly says?: string;
  /** The number of the trip that fails, from 1. */
  readonly at: number;
  /** Whether every later trip fails too. */
  readonly persists?: boolean;
}

export interface FaultyD1 {
  readonly d1: D1Database;
  /** Restarts the count of trips, and fails the trip of the plan. Null: no trip fails. */
  plan(plan: FaultPlan | null): void;
  /** The number of trips since the plan was set, including failed ones. */
  trips(): number;
  /** Waits until the planned trip hangs. */
  silenced(): Promise<void>;
}

const LOST = "D1_ERROR: Network connection lost.";
const OVERLOADED = "D1_ERROR: D1 DB is overloaded. Requests queued for too long.";
/** SQL that fails when it runs, not when it is prepared. Earlier statements of its batch have run and are rolled back. */
const POISON = "SELECT abs(-9223372036854775807 - 1)";

/** A D1 around the real one. Its trips fail as planned. */
export function faultyD1(d1: D1Database): FaultyD1 {
  let planned: FaultPlan | null = null;
  let trips = 0;
  let fallSilent = () => {};
  let silence = Promise.resolve();

  const travel: Travel = async (send, statements) => {
    trips++;
    const hit = planned !== null && (planned.persists === true ? trips >= planned.at : trips === planned.at);
    if (planned === null || !hit) return send(statements);
    if (planned.fault === "overloaded") throw new Error(OVERLOADED);
    if (planned.fault === "amid") {
      const survived = await send([...statements, { text: POISON, values: [] }]).then(
        () => true,
        () => false,
      );
      if (survived) throw new Error("The batch with the failing statement did not fail.");
    }
    // The response of a rejected batch is lost too.
    if (planned.fault === "after" || planned.fault === "silent after") await send(statements).catch(() => {});
    if (planned.fault === "silent before" || planned.fault === "silent after") {
      fallSilent();
      return new Promise(() => {});
    }
    throw new Error(planned.says ?? LOST);
  };

  return {
    d1: wrappedD1(d1, travel),
    plan: (plan) => {
      planned = plan;
      trips = 0;
      silence = new Promise((resolve) => {
        fallSilent = resolve;
      });
    },
    trips: () => trips,
    silenced: () => silence,
  };
}

import { entriesSql, liveBalancesSql } from "../test/support/seed.ts";
import { operations, type Slice, slice, spread, USERS } from "./load.ts";
import { runAll, type Served } from "./serve.ts";

export interface Comparison {
  readonly operation: string;
  readonly connections: number;
  readonly target: number;
  /** Purser's throughput as a share of the bare Worker's, slice by slice. */
  readonly throughput: { readonly median: number; readonly low: number; readonly high: number };
  /** The bare Worker's CPU time of a request as a share of Purser's. Null if it is not known. */
  readonly cpu: number | null;
}

/** Ten live balances and 60 ledger rows for each of the users under load. */
export async function fillAccounts(db: D1Database): Promise<void> {
  for (let index = 0; index < USERS; index++) {
    const account = { environmentId: 1, userId: `u${index}` };
    await runAll(db, [...liveBalancesSql(account, 10), ...entriesSql(account, 10, 5)]);
  }
}

/** The requests of one slice. It is short, so that other work of the machine affects both sides equally. */
const AMOUNTS = new Map([
  [1, 300],
  [50, 600],
]);

const sum = (values: readonly (number | null)[]): number | null =>
  values.includes(null) ? null : values.reduce<number>((total, value) => total + (value ?? 0), 0);

/** Measures both Workers in turn, a slice each, `rounds` times. The order changes with every round. */
export async function compare(bare: Served, purser: Served, rounds: number): Promise<Comparison[]> {
  const comparisons: Comparison[] = [];
  for (const operation of operations) {
    for (const [connections, amount] of AMOUNTS) {
      const slices = { bare: [] as Slice[], purser: [] as Slice[] };
      // The first round warms up both and is not counted.
      for (let round = 0; round <= rounds; round++) {
        const inTurn = round % 2 === 0 ? (["bare", "purser"] as const) : (["purser", "bare"] as const);
        for (const side of inTurn) {
          const taken = await slice(side === "bare" ? bare : purser, operation, connections, amount);
          if (round > 0) slices[side].push(taken);
        }
      }
      const ratios = slices.purser.map(
        (own, index) => own.requestsPerSecond / (slices.bare[index]?.requestsPerSecond ?? Number.NaN),
      );
      const cpu = {
        bare: sum(slices.bare.map((s) => s.cpuSeconds)),
        purser: sum(slices.purser.map((s) => s.cpuSeconds)),
      };
      comparisons.push({
        operation: operation.name,
        connections,
        target: operation.target,
        throughput: spread(ratios),
        cpu: cpu.bare === null || cpu.purser === null ? null : cpu.bare / cpu.purser,
      });
      const last = comparisons.at(-1);
      console.log(
        `${operation.name}, ${connections} connections: ${last?.throughput.median.toFixed(2)} of bare` +
          ` (${last?.throughput.low.toFixed(2)} to ${last?.throughput.high.toFixed(2)}), CPU ${last?.cpu?.toFixed(2) ?? "?"}`,
      );
    }
  }
  return comparisons;
}

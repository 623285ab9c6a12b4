/** How the benchmarks sum up and print their figures. */
import { cpus, loadavg, totalmem } from "node:os";

/** Measures two sides in turn, `rounds` times each. The order changes with every round. The first round is not counted. */
export async function measureInTurn<T>(rounds: number, measure: (side: "Purser" | "bare") => Promise<T>) {
  const measured = { Purser: [] as T[], bare: [] as T[] };
  for (let round = 0; round <= rounds; round++) {
    for (const side of round % 2 === 0 ? (["bare", "Purser"] as const) : (["Purser", "bare"] as const)) {
      const one = await measure(side);
      if (round > 0) measured[side].push(one);
    }
  }
  return measured;
}

/** The value below which `share` of the values are, interpolated. */
export function quantile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  const place = share * (sorted.length - 1);
  const [below = Number.NaN, above = Number.NaN] = [sorted[Math.floor(place)], sorted[Math.ceil(place)]];
  return below + (above - below) * (place - Math.floor(place));
}

export const median = (values: readonly number[]): number => quantile(values, 0.5);

export const whole = (value: number): string => Math.round(value).toLocaleString("en");

/** A table in Markdown. */
export const table = (head: readonly string[], rows: readonly (readonly string[])[]): string =>
  [head, head.map(() => "---"), ...rows].map((cells) => `| ${cells.join(" | ")} |`).join("\n");

/** The machine, and its load at this moment. */
export function machine(): string {
  const load = loadavg().map((value) => value.toFixed(1));
  return `${cpus().length} × ${cpus()[0]?.model.trim()}, ${Math.round(totalmem() / 2 ** 30)} GiB; load average ${load.join(", ")}`;
}

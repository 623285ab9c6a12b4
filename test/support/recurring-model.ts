import { timeText } from "./model-amounts.ts";
import { createZone } from "./zone-model.ts";
/** A model of recurring grants and their periods, with plain objects. It uses no SQL and nothing from src. */
export type Every = "day" | "week" | "month" | "year";
export interface ModelItem {
  readonly packItemId: string;
  readonly initial: number;
}
export interface ModelPack {
  readonly packId: string;
  items: readonly ModelItem[];
  archived: boolean;
}
export interface ModelRecurring {
  readonly id: string;
  readonly pack: ModelPack;
  readonly every: Every;
  readonly anchorMs: number;
  readonly timeZone: string;
  readonly endsMs: number;
  readonly rollover: number | null;
  /** The last period that was granted, skipped or cut off. */
  lastN: number;
  status: "active" | "suspended" | "ended";
  /** After a cancellation: the last period that counts. */
  finalN: number;
}
export interface ModelPeriod extends ModelItem {
  readonly of: ModelRecurring;
  readonly n: number;
  readonly fromMs: number;
  readonly expiresMs: number;
  revoked: boolean;
}

type ModelSchedule = Pick<ModelRecurring, "anchorMs" | "every" | "timeZone">;

/** The beginning of period n: the anchor's date and time in its zone, moved by whole days or months. */
export const startOf = ({ anchorMs, every, timeZone }: ModelSchedule, n: number): number =>
  createZone(timeZone).periodStart(anchorMs, every, n);

/** The number of the current period, by counting. 0 before the first period. */
export function runningAt(of: ModelSchedule, nowMs: number): number {
  let n = 0;
  while (startOf(of, n + 1) <= nowMs) n++;
  return n;
}

/** The number of the last period that begins before the grant's end. */
const lastOf = (of: ModelRecurring): number => (of.endsMs === Infinity ? Infinity : runningAt(of, of.endsMs - 1));

/** The balances that a user's recurring grants issue at a moment, in the order of their periods (R2 to R4). */
export function grantDue(all: readonly ModelRecurring[], nowMs: number): ModelPeriod[] {
  const granted: ModelPeriod[] = [];
  for (const of of all) {
    if (of.status !== "active") continue;
    const running = runningAt(of, nowMs);
    const last = Math.min(running, lastOf(of));
    for (let n = of.lastN + 1; n <= last; n++) {
      const expiresMs = of.rollover === null ? Infinity : startOf(of, n + 1 + of.rollover);
      const isOver = of.rollover === null ? n < running : expiresMs <= nowMs;
      if (isOver) continue;
      if (of.pack.archived) {
        of.status = "suspended";
        of.lastN = n - 1;
        break;
      }
      const fromMs = startOf(of, n);
      granted.push(...of.pack.items.map((item) => ({ ...item, of, n, fromMs, expiresMs, revoked: false })));
    }
    if (of.status !== "active") continue;
    of.lastN = Math.max(of.lastN, last);
    if (of.lastN >= lastOf(of)) of.status = "ended";
  }
  return granted;
}

/** Resumes a suspended grant with the current period (R4). */
export function resume(of: ModelRecurring, nowMs: number): "refused" | "done" {
  const running = runningAt(of, nowMs);
  if (of.pack.archived && running <= lastOf(of)) return "refused";
  of.status = "active";
  of.lastN = Math.max(of.lastN, Math.min(running, lastOf(of) + 1) - 1);
  return "done";
}

/** The state of a grant in the form of the API (R1). */
export function shown(of: ModelRecurring, nowMs: number) {
  const n = runningAt(of, nowMs);
  const isRunning = of.status !== "suspended" && n >= 1 && n <= Math.min(of.finalN, lastOf(of));
  return {
    recurringId: of.id,
    status: of.status,
    period: isRunning ? { n, from: timeText(startOf(of, n)), to: timeText(startOf(of, n + 1)) } : null,
    nextAt: of.status === "active" ? timeText(startOf(of, of.lastN + 1)) : null,
  };
}

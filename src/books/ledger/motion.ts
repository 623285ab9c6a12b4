import type { Statement } from "../../db/sql.ts";

/** The effect of a statement's entries on a user's credits, for alerts. Holds and their returns have none (H5). */
export interface Motion {
  /** How many of the batch's last entries they are. Ignored with `eventIds`. */
  readonly entries: number;
  /** Whether they add credits. */
  readonly lifts: boolean;
  /** The events that settle reservations. Their debits are not together at the end of the batch. */
  readonly eventIds?: readonly string[];
}

/** Marks a statement as moving credits, for the batch. No other entries may come after it. */
export function moving<Moving extends Statement>(statement: Moving, motion: Motion): Moving & { motion: Motion } {
  return { ...statement, motion };
}

export function motionsOf(statements: readonly (Statement & { readonly motion?: Motion })[]): Motion[] {
  return statements.flatMap(({ motion }) => motion ?? []);
}

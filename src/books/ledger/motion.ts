import type { Statement } from "../../db/sql.ts";

/** What the entries of a statement do to what a user has. A hold and its return do nothing to it (H5). */
export interface Motion {
  /** How many they are: the last of their batch. Of no account with `eventIds`. */
  readonly entries: number;
  /** Whether they are a grant, or add something. */
  readonly lifts: boolean;
  /** The debits of these events, which settle reservations: other entries come between and behind them. */
  readonly eventIds?: readonly string[];
}

/** The statement, about which its batch knows that it moves credits. No other entries may come after it. */
export function moving<Moving extends Statement>(statement: Moving, motion: Motion): Moving & { motion: Motion } {
  return { ...statement, motion };
}

export function motionsOf(statements: readonly (Statement & { readonly motion?: Motion })[]): Motion[] {
  return statements.flatMap(({ motion }) => motion ?? []);
}

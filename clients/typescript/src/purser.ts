import { clientOf } from "./client.ts";
import { type Operations, operations } from "./generated/operations.ts";
import { type HoldUsage, holdUsage } from "./hold.ts";
import type { PurserSettings } from "./send.ts";

/** A client for credits, usage, consent, exports and erasures of one environment, with one of its keys. */
export class Purser extends clientOf<Operations>(operations) {
  readonly usage: {
    /** Reserves credits, runs `work`, and commits the usage. */
    readonly hold: HoldUsage;
  };

  constructor(settings: PurserSettings) {
    super(settings);
    this.usage = { hold: (input, work) => holdUsage(this, input, work) };
  }
}

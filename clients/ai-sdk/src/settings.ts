import type { Input, Operations, Output } from "purser-client";
import type { Meters } from "purser-client/meters";

/** The operations of `Purser` that the middleware calls. */
export type Reserving = Pick<
  Operations,
  "createReservation" | "extendReservation" | "commitReservation" | "releaseReservation"
>;

/** The parameters of a call that the middleware reads, in versions 3 and 4 of the provider specification. */
export interface CallParams {
  readonly prompt: readonly unknown[];
  readonly maxOutputTokens?: number | undefined;
  readonly tools?: readonly unknown[] | undefined;
  readonly responseFormat?: unknown;
  readonly abortSignal?: AbortSignal | undefined;
}

export interface MiddlewareSettings {
  /** A `Purser` of purser-client, with a secret key. */
  readonly purser: Reserving;
  readonly userId: string;
  /** Your own id of who uses it, if the user pays for a team. */
  readonly memberId?: string;
  /** The name of the usage events, such as `chat.completion`. */
  readonly event: string;
  /**
   * The id of the first call's usage event. The calls that follow, such as the steps after a tool, add `#2`, `#3` and so on. An id that
   * was charged before is not charged again. The middleware makes an id for each call if it is absent.
   */
  readonly eventId?: string;
  readonly properties?: NonNullable<Input<"commitReservation">["properties"]>;
  /** The name of a model in your price list. Default: the provider's id of the model. */
  readonly modelName?: (modelId: string) => string;
  /** Returns the quantities to charge. Without it the meters are sent, and your price list in Purser prices them. */
  readonly quantities?: (meters: Meters, model: string) => NonNullable<Input<"createReservation">["quantities"]>;
  /** Reserved for a call that does not set `maxOutputTokens`. Default: 4,096. */
  readonly maxOutputTokens?: number;
  /** Replaces the estimate of the prompt. It should rather be too high than too low. */
  readonly estimateInputTokens?: (params: CallParams) => number | Promise<number>;
  /** As the `maxRetries` of your calls: after the last one an error is charged at once. Default: 2, as the SDK's. */
  readonly maxRetries?: number;
  /** How long the credits stay reserved if your process ends. Longer calls extend it. Default: 300. */
  readonly expiresInSeconds?: number;
  /** Keeps a Worker alive until what was used is charged: `(promise) => ctx.waitUntil(promise)`. */
  readonly waitUntil?: (promise: Promise<unknown>) => void;
  /** Called with the response of each commit: what each balance paid, and what none covered. */
  readonly onCharged?: (usage: Output<"commitReservation">) => void;
  /**
   * Called where less or more than the reported usage is charged, a charge failed, or `onCharged` threw. Default: `console.warn`.
   */
  readonly onWarning?: (warning: string, eventId: string) => void;
}

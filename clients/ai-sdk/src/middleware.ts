import type { Meters } from "purser-client/meters";
import { type Charge, openCharge } from "./charge.ts";
import { promptTokens } from "./estimate.ts";
import { reportedMeters } from "./reported.ts";
import { isRetryable, parametersOf, retryWaitMs, waitingCalls } from "./retries.ts";
import type { CallParams, MiddlewareSettings } from "./settings.ts";
import { noteParts, type Progress, type StreamPart, watchStream } from "./stream.ts";

interface Model {
  readonly modelId: string;
}

interface Generated {
  readonly usage: unknown;
  readonly response?: { readonly modelId?: string | undefined } | undefined;
}

interface Streamed<Part> {
  readonly stream: ReadableStream<Part>;
}

/** A middleware for `wrapLanguageModel` of the AI SDK, version 6 or 7. */
export interface PurserMiddleware {
  readonly specificationVersion: "v3";
  readonly wrapGenerate: <Result extends Generated>(call: {
    readonly doGenerate: () => PromiseLike<Result>;
    readonly params: CallParams;
    readonly model: Model;
  }) => Promise<Result>;
  readonly wrapStream: <Part extends StreamPart, Result extends Streamed<Part>>(call: {
    readonly doStream: () => PromiseLike<Result & Streamed<Part>>;
    readonly params: CallParams;
    readonly model: Model;
  }) => Promise<Result & Streamed<Part>>;
}

/** A call of the provider, with the attempts of the SDK that repeat it. */
interface Call {
  /** Of `parametersOf`. */
  readonly parameters: string;
  readonly charge: Charge;
  readonly progress: Progress;
  attempts: number;
}

const OUTPUT_TOKENS_MAX = 4_096;

/** Returns what a call used that ended early: the prompt, and the output that came, at most what was reserved. */
const usedSoFar = ({ charge: { held }, progress }: Call): Meters => ({
  input: held.input,
  output: Math.min(Math.ceil(progress.outputTokens), held.output),
});

/** Commits what the provider reported. If it reported nothing, commits what was reserved; after an error, what was used so far. */
async function commitReported(call: Call, usage: unknown): Promise<void> {
  const { charge, progress } = call;
  const reported = reportedMeters(usage);
  if (reported !== null) return charge.commit(reported, progress.modelId);
  if (progress.hasError) return charge.commit(usedSoFar(call), progress.modelId);
  if (charge.isOpen()) charge.warn("The provider reported no usage that adds up, so what was reserved is charged.");
  return charge.commit(charge.held, progress.modelId);
}

/**
 * Reserves the user's credits before each call of a model, and charges the meters that its provider reports. Credits that do not
 * suffice, or a usage limit, reject the call with Purser's error before the provider is asked.
 */
export function purserMiddleware(settings: MiddlewareSettings): PurserMiddleware {
  const waiting = waitingCalls<Call>();
  let calls = 0;

  const inBackground = (promise: Promise<void>) => settings.waitUntil?.(promise);

  const nextEventId = (): string => {
    calls += 1;
    if (settings.eventId === undefined) return crypto.randomUUID();
    return calls === 1 ? settings.eventId : `${settings.eventId}#${calls}`;
  };

  async function open(params: CallParams, { modelId }: Model): Promise<Call> {
    const { abortSignal: signal, maxOutputTokens = settings.maxOutputTokens ?? OUTPUT_TOKENS_MAX } = params;
    const parameters = parametersOf(modelId, params);
    const kept = waiting.take(parameters);
    if (kept !== undefined) {
      kept.attempts += 1;
      return kept;
    }
    const input = await (settings.estimateInputTokens ?? promptTokens)(params);
    const progress = { modelId, outputTokens: 0, hasError: false, isReading: true };
    const isRunning = () => progress.isReading && signal?.aborted !== true;
    const options = { eventId: nextEventId(), modelId, held: { input, output: maxOutputTokens }, isRunning };
    const charge = await openCharge(settings, options, signal);
    return { parameters, charge, progress, attempts: 1 };
  }

  /** Asks the provider. From then on the prompt counts, whatever comes of it. */
  async function ask<Result>(call: Call, params: CallParams, work: () => PromiseLike<Result>): Promise<Result> {
    try {
      return await work();
    } catch (error) {
      const giveUp = () => call.charge.commit(usedSoFar(call), call.progress.modelId);
      const mayBeRepeated = isRetryable(error) && call.attempts <= (settings.maxRetries ?? 2);
      if (mayBeRepeated && params.abortSignal?.aborted !== true)
        inBackground(waiting.wait(call.parameters, call, retryWaitMs(error, call.attempts), giveUp));
      else await giveUp();
      throw error;
    }
  }

  return {
    specificationVersion: "v3",

    async wrapGenerate({ doGenerate, params, model }) {
      const call = await open(params, model);
      const result = await ask(call, params, doGenerate);
      call.progress.modelId = result.response?.modelId ?? model.modelId;
      await commitReported(call, result.usage);
      return result;
    },

    async wrapStream({ doStream, params, model }) {
      const call = await open(params, model);
      const result = await ask(call, params, doStream);
      const interrupt = () => call.charge.commit(usedSoFar(call), call.progress.modelId);
      // On an abort the SDK may read no further.
      params.abortSignal?.addEventListener("abort", interrupt, { once: true });
      const finish = (usage: unknown) => {
        params.abortSignal?.removeEventListener("abort", interrupt);
        return commitReported(call, usage);
      };
      const stream = watchStream(result.stream, call.progress, { part: noteParts(call.progress), finish, interrupt });
      return { ...result, stream };
    },
  };
}

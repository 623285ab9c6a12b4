import type { CallParams } from "./settings.ts";

/**
 * The SDK repeats a call whose error is retryable, and does not tell a model which call is a repetition. A call that failed so waits
 * here for the next call of the same model with equal parameters. If none comes in time, `giveUp` ends it.
 */
export interface Waiting<Call> {
  /** Resolves when the call is repeated or given up. */
  readonly wait: (parameters: string, call: Call, waitMs: number, giveUp: () => Promise<void>) => Promise<void>;
  /** Returns the call that this one repeats. */
  readonly take: (parameters: string) => Call | undefined;
}

/** The SDK's first pause; each further one is twice as long. */
const PAUSE_MS = 2_000;
const RETRY_AFTER_MS_MAX = 60_000;

interface Failure {
  readonly isRetryable?: unknown;
  readonly responseHeaders?: Readonly<Record<string, string>>;
}

export const isRetryable = (error: unknown): boolean =>
  error instanceof Error && (error as Failure).isRetryable === true;

/** Returns for how long a repetition of the attempt may be expected. */
export function retryWaitMs(error: unknown, attempt: number): number {
  const headers = (error as Failure).responseHeaders ?? {};
  const after = headers["retry-after"] ?? "";
  const afterMs = Number(headers["retry-after-ms"]) || Number(after) * 1_000 || Date.parse(after) - Date.now() || 0;
  const told = afterMs > 0 && afterMs < RETRY_AFTER_MS_MAX ? afterMs : 0;
  return Math.max(told, PAUSE_MS * 2 ** (attempt - 1)) + PAUSE_MS;
}

/** Returns what a repetition has in common with its call, and other calls have not. Files are compared by their length. */
export const parametersOf = (modelId: string, { prompt, tools, responseFormat, maxOutputTokens }: CallParams): string =>
  JSON.stringify([modelId, maxOutputTokens, responseFormat, tools, prompt], (_name, value) =>
    value instanceof Uint8Array ? `${value.length} bytes` : value,
  );

interface Entry<Call> {
  readonly parameters: string;
  readonly call: Call;
  readonly end: () => void;
}

export function waitingCalls<Call>(): Waiting<Call> {
  const entries: Entry<Call>[] = [];
  const remove = (entry: Entry<Call>) => entries.splice(entries.indexOf(entry), 1);
  return {
    wait: (parameters, call, waitMs, giveUp) =>
      new Promise((resolve) => {
        const timer = setTimeout(() => {
          remove(entry);
          giveUp().then(resolve);
        }, waitMs);
        const end = () => {
          clearTimeout(timer);
          resolve();
        };
        const entry = { parameters, call, end };
        entries.push(entry);
      }),
    take(parameters) {
      const entry = entries.find((each) => each.parameters === parameters);
      if (entry === undefined) return undefined;
      entry.end();
      remove(entry);
      return entry.call;
    },
  };
}

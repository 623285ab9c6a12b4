import { textTokens } from "./estimate.ts";

/** A part of a stream, in versions 3 and 4 of the provider specification. */
export interface StreamPart {
  readonly type: string;
  readonly id?: unknown;
  readonly delta?: unknown;
  readonly input?: unknown;
  readonly toolCallId?: unknown;
  readonly modelId?: unknown;
  readonly usage?: unknown;
}

/** The parts of a stream so far, summed up. */
export interface Progress {
  modelId: string;
  outputTokens: number;
  hasError: boolean;
  /** Whether a part is being waited for. False while nobody reads the stream. */
  isReading: boolean;
}

/** Returns a function that notes a part's text, the model that answers, and errors. */
export function noteParts(progress: Progress): (part: StreamPart) => void {
  const streamedTools = new Set<unknown>();
  return ({ type, id, delta, input, toolCallId, modelId }) => {
    if (typeof delta === "string") progress.outputTokens += textTokens(delta);
    if (type === "tool-input-start") streamedTools.add(id);
    // The input of a tool comes in pieces, or whole, or both.
    if (type === "tool-call" && typeof input === "string" && !streamedTools.has(toolCallId))
      progress.outputTokens += textTokens(input);
    if (type === "response-metadata" && typeof modelId === "string") progress.modelId = modelId;
    if (type === "error") progress.hasError = true;
  };
}

export interface Endings<Part> {
  readonly part: (part: Part) => void;
  /** Called once: with the last part, before it is passed on, or when the stream ends without it. */
  readonly finish: (usage: unknown) => Promise<void>;
  /** Called when the stream fails, or nobody reads on. */
  readonly interrupt: () => Promise<void>;
}

/** Passes a stream on, and waits for `finish` or `interrupt` before it ends. */
export function watchStream<Part extends StreamPart>(
  stream: ReadableStream<Part>,
  progress: Progress,
  { part: note, finish, interrupt }: Endings<Part>,
): ReadableStream<Part> {
  const reader = stream.getReader();
  let hasFinished = false;
  return new ReadableStream<Part>(
    {
      async pull(controller) {
        try {
          progress.isReading = true;
          const { done, value } = await reader.read();
          if (done) {
            if (!hasFinished) await finish(undefined);
            return controller.close();
          }
          note(value);
          if (value.type === "finish") {
            hasFinished = true;
            await finish(value.usage);
          }
          controller.enqueue(value);
        } catch (error) {
          await interrupt();
          controller.error(error);
        } finally {
          progress.isReading = false;
        }
      },
      async cancel(reason) {
        await Promise.all([interrupt(), reader.cancel(reason)]);
      },
    },
    { highWaterMark: 0 },
  );
}

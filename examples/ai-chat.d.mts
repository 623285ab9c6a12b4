import type { Server } from "node:http";

/** A piece of an answer, and the usage in the provider's own form, once it reports it. */
export interface Piece {
  readonly text?: string;
  readonly usage?: object;
}
export type AskModel = (request: {
  model: string;
  prompt: string;
  maxOutputTokens: number;
  signal: AbortSignal;
}) => AsyncIterable<Piece>;

export interface Settings {
  readonly purserUrl: string;
  readonly secretKey: string;
  readonly askModel?: AskModel;
}

/** The integrator's HTTP server, not listening yet. */
export function chatServer(settings: Settings): Server;

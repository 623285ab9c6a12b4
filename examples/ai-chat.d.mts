import type { Server } from "node:http";

/** A piece of an answer, and the tokens up to then as the provider counts them, once it reports them. */
export interface Piece {
  readonly text?: string;
  readonly usage?: { readonly inputTokens: number; readonly outputTokens: number };
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

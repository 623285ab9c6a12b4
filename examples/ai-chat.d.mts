import type { Server } from "node:http";

export type AskModel = (request: { prompt: string; signal: AbortSignal }) => AsyncIterable<string>;

export interface Settings {
  readonly purserUrl: string;
  readonly secretKey: string;
  readonly askModel?: AskModel;
}

/** The integrator's HTTP server, not listening yet. */
export function chatServer(settings: Settings): Server;

import type { Server } from "node:http";

export interface Settings {
  readonly webhookSecret: string;
  readonly purserUrl: string;
  readonly secretKey: string;
}

/** The integrator's HTTP server, not listening yet. */
export function backend(settings: Settings): Server;

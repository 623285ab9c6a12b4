import type { Server } from "node:http";

export function receiver(
  secret: string,
  take: (message: { id: string; type: string; data: Record<string, unknown> }) => unknown,
): Server;

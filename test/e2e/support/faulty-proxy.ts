import { createServer, type IncomingMessage, request, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { buffer } from "node:stream/consumers";

/**
 * The fault of a request: the request never arrives, half of it arrives, it arrives and its sender is disconnected immediately (so
 * that a retry runs concurrently), its response is lost or truncated, or this response replaces the server's.
 */
export type Fault =
  | "refused"
  | "half"
  | "beside"
  | "lost"
  | "cut"
  | { readonly status: number; readonly headers?: Record<string, string>; readonly body?: string };

export interface FaultyProxy {
  readonly url: string;
  /** The faults of the next requests, in this order; null is no fault. */
  readonly faults: (Fault | null)[];
  /** The faults of later requests, by their content, which is the same for each retry. */
  chance: (request: string) => Fault | null;
  /** All requests, also those with a fault. */
  readonly seen: { readonly method: string; readonly path: string; readonly headers: IncomingMessage["headers"] }[];
  readonly close: () => Promise<void>;
}

/** Sends the head and half of the body of a request, and ends the connection. The server gets no complete request. */
function sendHalf(target: string, method: string, headers: IncomingMessage["headers"], body: Buffer): Promise<void> {
  return new Promise((resolve) => {
    const sending = request(target, { method, headers });
    sending.once("error", () => resolve()).once("response", () => resolve());
    sending.write(body.subarray(0, body.length / 2), () => {
      sending.destroy();
      resolve();
    });
  });
}

/** A proxy between a client and a server that injects faults. */
export async function startFaultyProxy(target: string): Promise<FaultyProxy> {
  const faults: (Fault | null)[] = [];
  const seen: FaultyProxy["seen"] = [];
  const proxy = { chance: (_request: string): Fault | null => null };

  async function pass(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
    const { method = "", url = "", headers } = incoming;
    seen.push({ method, path: url, headers });
    const body = await buffer(incoming);
    const planted = faults.shift();
    const fault = planted === undefined ? proxy.chance(`${method} ${url} ${body}`) : planted;
    if (fault === "half" && body.length > 0) await sendHalf(target + url, method, headers, body);
    if (fault === "refused" || fault === "half") return void incoming.socket.destroy();
    if (fault === "beside") incoming.socket.destroy();
    if (fault !== null && typeof fault === "object") {
      return void outgoing.writeHead(fault.status, fault.headers).end(fault.body);
    }
    const answer = await new Promise<IncomingMessage>((resolve, reject) => {
      request(target + url, { method, headers }, resolve)
        .once("error", reject)
        .end(body);
    });
    const bytes = await buffer(answer);
    if (fault === "beside") return;
    if (fault === "lost") return void incoming.socket.destroy();
    outgoing.writeHead(answer.statusCode ?? 500, answer.headers);
    if (fault === null) return void outgoing.end(bytes);
    outgoing.write(bytes.subarray(0, bytes.length / 2), () => incoming.socket.destroy());
  }

  const server = createServer((incoming, outgoing) => {
    pass(incoming, outgoing).catch(() => incoming.socket.destroy());
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  // A server that listens on a TCP port has an address of this form.
  const { port } = server.address() as AddressInfo;
  const close = () =>
    new Promise<void>((resolve) => {
      server.close(() => resolve());
      server.closeAllConnections();
    });
  return Object.assign(proxy, { url: `http://127.0.0.1:${port}`, faults, seen, close });
}

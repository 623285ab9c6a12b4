import { generateKeyPairSync, sign } from "node:crypto";
import { createServer, type ServerResponse } from "node:http";
import { createServer as createSecureServer } from "node:https";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { Webhook } from "standardwebhooks";

/** A message as Purser sends it. */
export interface Message {
  readonly id: string;
  readonly type: string;
  // A test reads any message. Its assertions say what it should be.
  // biome-ignore lint/suspicious/noExplicitAny: see above
  readonly data: any;
}

export interface Attempt {
  readonly atMs: number;
  readonly headers: Record<string, string>;
  readonly text: string;
  readonly message: Message;
}

/** Responds to an attempt. `count` is the number of attempts of this message so far, including this one. */
export type Behaviour = (response: ServerResponse, count: number) => void;

export interface Receiver {
  readonly url: string;
  readonly attempts: Attempt[];
  /** Each message once, in order of its first arrival. */
  readonly messages: () => readonly Message[];
  /** The number of connections, also of those without a request. */
  readonly connections: () => number;
  /** Throws unless `standardwebhooks` verifies every attempt with the secret. */
  readonly verifyAll: (secret: string) => void;
  readonly close: () => Promise<void>;
}

/** A receiver of messages on a free port of the loopback interface, with configurable responses. */
export async function startReceiver(behave: Behaviour, { isSelfSigned = false } = {}): Promise<Receiver> {
  const attempts: Attempt[] = [];
  let connections = 0;
  const take = async (request: import("node:http").IncomingMessage, response: ServerResponse) => {
    const body = await text(request);
    // Purser sends no header twice.
    const headers = Object.fromEntries(Object.entries(request.headers).map(([name, value]) => [name, String(value)]));
    attempts.push({ atMs: Date.now(), headers, text: body, message: JSON.parse(body) });
    behave(response, attempts.filter(({ message }) => message.id === headers["webhook-id"]).length);
  };
  const listener = (...[request, response]: Parameters<typeof take>) =>
    void take(request, response).catch(() => request.socket.destroy());
  const server = isSelfSigned ? createSecureServer(selfSigned(), listener) : createServer(listener);
  server.on("connection", () => connections++);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  // A server that listens on a TCP port has an address of this form.
  const { port } = server.address() as AddressInfo;
  return {
    url: `${isSelfSigned ? "https" : "http"}://127.0.0.1:${port}/hook`,
    attempts,
    messages: () => [...new Map(attempts.map(({ message }) => [message.id, message])).values()],
    connections: () => connections,
    verifyAll: (secret) => {
      const webhook = new Webhook(secret);
      for (const { text: signed, headers } of attempts) webhook.verify(signed, headers);
    },
    close: () =>
      new Promise<void>((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

const der = (tag: number, ...parts: readonly (Buffer | number[])[]): Buffer => {
  const content = Buffer.concat(parts.map((part) => Buffer.from(part)));
  const { length } = content;
  const head = length < 128 ? [length] : length < 256 ? [0x81, length] : [0x82, length >> 8, length & 255];
  return Buffer.concat([Buffer.from([tag, ...head]), content]);
};

/** A self-signed certificate for 127.0.0.1, otherwise correct. */
function selfSigned(): { key: string; cert: string } {
  const { privateKey, publicKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const ecdsaWithSha256 = der(0x30, der(0x06, [0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02]));
  const name = der(0x30, der(0x31, der(0x30, der(0x06, [0x55, 0x04, 0x03]), der(0x0c, [...Buffer.from("receiver")]))));
  const year = (add: number) => der(0x17, [...Buffer.from(`${(new Date().getUTCFullYear() + add) % 100}0101000000Z`)]);
  const addresses = der(0x30, der(0x87, [127, 0, 0, 1]));
  const extensions = der(0xa3, der(0x30, der(0x30, der(0x06, [0x55, 0x1d, 0x11]), der(0x04, addresses))));
  const signed = der(
    0x30,
    der(0xa0, der(0x02, [2])),
    der(0x02, [1]),
    ...[ecdsaWithSha256, name, der(0x30, year(-1), year(2)), name],
    publicKey.export({ type: "spki", format: "der" }),
    extensions,
  );
  const signature = sign("sha256", signed, privateKey);
  const certificate = der(0x30, signed, ecdsaWithSha256, der(0x03, [0], signature)).toString("base64");
  return {
    key: privateKey.export({ type: "pkcs8", format: "pem" }).toString(),
    cert: `-----BEGIN CERTIFICATE-----\n${certificate.match(/.{1,64}/g)?.join("\n")}\n-----END CERTIFICATE-----\n`,
  };
}

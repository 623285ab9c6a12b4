import { request } from "node:http";
import { Readable } from "node:stream";
import { beforeAll, expect, it } from "vitest";
import { type ServedApp, type Server, sharedServer } from "./support/server.ts";

const MIB = 1024 * 1024;

let server: Server;
let app: ServedApp;
beforeAll(async () => {
  server = await sharedServer();
  app = await server.makeApp();
});

interface Sent {
  readonly method?: string;
  readonly path: string;
  readonly headers?: Record<string, string>;
  readonly body?: Uint8Array;
  /** Whether the body is sent in pieces, without a Content-Length. */
  readonly isChunked?: boolean;
}

/** Sends over a plain socket, so that the path's escapes and the body's framing arrive unchanged. */
function send({ method = "GET", path, headers = {}, body, isChunked = false }: Sent) {
  return new Promise<{ status: number; headers: Record<string, unknown>; text: string }>((resolve, reject) => {
    const { hostname, port } = new URL(server.url);
    const length = body === undefined || isChunked ? {} : { "content-length": `${body.length}` };
    const sent = request({ hostname, port, method, path, headers: { ...headers, ...length } }, (answer) => {
      let text = "";
      answer.setEncoding("utf8");
      answer.on("data", (part: string) => {
        text += part;
      });
      answer.on("end", () => resolve({ status: answer.statusCode ?? 0, headers: answer.headers, text }));
      answer.on("error", reject);
    });
    sent.on("error", reject);
    if (body === undefined) sent.end();
    else if (isChunked) Readable.from(pieces(body)).pipe(sent);
    else sent.end(body);
  });
}

function* pieces(body: Uint8Array) {
  for (let at = 0; at < body.length; at += 64 * 1024) yield body.subarray(at, at + 64 * 1024);
}

const bytes = (text: string) => new TextEncoder().encode(text);
const padded = (length: number) => bytes(`{"balanceId":"crb_none"}${" ".repeat(length - 24)}`);
const codeOf = (answer: { text: string }): string => JSON.parse(answer.text).error.code;

const revoke = (sent: Partial<Sent>) =>
  send({
    method: "POST",
    path: "/api/v1/credits/revoke",
    ...sent,
    headers: { authorization: `Bearer ${app.keys.sk_live}`, "content-type": "application/json", ...sent.headers },
  });

it.each([false, true])(
  "the built Worker reads a body of 1 MiB, and answers a larger one with 413 (chunked: %s)",
  async (isChunked) => {
    const exact = await revoke({ body: padded(MIB), isChunked });
    expect([exact.status, codeOf(exact)]).toEqual([404, "credit_balance_not_found"]);
    for (const size of [MIB + 1, 8 * MIB]) {
      const larger = await revoke({ body: padded(size), isChunked });
      expect([larger.status, codeOf(larger)]).toEqual([413, "payload_too_large"]);
      expect(larger.headers["x-d1-bookmark"]).toBeDefined();
    }
  },
);

it("the built Worker answers a large body without a valid key with 401, and does not cut the connection", async () => {
  for (const isChunked of [false, true]) {
    const answer = await revoke({ body: padded(8 * MIB), isChunked, headers: { authorization: "Bearer none" } });
    expect([answer.status, codeOf(answer)]).toEqual([401, "invalid_key"]);
  }
});

it("the built Worker answers 404 to a path with an invalid escape or an extra slash", async () => {
  for (const path of ["/api/v1/credits%FF", "/%", "/api/v1/%zz", "/api/v1//credits", "/api/v1/credits/", "/%00"]) {
    const answer = await send({ path });
    expect([path, answer.status, codeOf(answer)]).toEqual([path, 404, "not_found"]);
    expect(answer.headers["x-request-id"]).toBe(JSON.parse(answer.text).error.requestId);
  }
});

it.each(["PUT", "DELETE", "PATCH", "OPTIONS", "PROPFIND"])(
  "the built Worker answers %s on a path that only takes POST with 405 and Allow",
  async (method) => {
    const answer = await send({ method, path: "/api/v1/credits/grant" });
    expect([answer.status, codeOf(answer), answer.headers.allow]).toEqual([405, "method_not_allowed", "POST"]);
  },
);

it("the built Worker answers HEAD with GET's status, and no body", async () => {
  const headers = { authorization: `Bearer ${app.keys.sk_live}` };
  for (const [path, status] of [
    ["/api/v1/credits?userId=u", 200],
    ["/api/v1/credits", 400],
    ["/nowhere", 404],
    ["/api/v1/credits/grant", 405],
  ] as const) {
    const answer = await send({ method: "HEAD", path, headers });
    expect([path, answer.status, answer.text]).toEqual([path, status, ""]);
  }
});

it("the built Worker ignores the body of a GET", async () => {
  const headers = { authorization: `Bearer ${app.keys.sk_live}` };
  const answer = await send({ path: "/api/v1/credits?userId=u", headers, body: bytes("{") });
  expect([answer.status, answer.text]).toEqual([200, '{"credits":[]}']);
});

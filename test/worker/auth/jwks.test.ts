import { exportJWK, generateKeyPair, type JWK, SignJWT } from "jose";
import { beforeEach, expect, it, vi } from "vitest";
import { MINUTE_MS } from "../../../src/lib/time.ts";
import { expectError } from "../../support/rejections.ts";
import { type Answer, Clock, makeApp, makeClient } from "../../support/world.ts";

interface SigningKey {
  readonly kid: string;
  readonly privateKey: CryptoKey;
  readonly jwk: JWK;
}

async function makeSigningKey(kid: string): Promise<SigningKey> {
  const { privateKey, publicKey } = await generateKeyPair("ES256", { extractable: true });
  return { kid, privateKey, jwk: { ...(await exportJWK(publicKey)), kid, alg: "ES256" } };
}

/** A counting key server: its responses by URL replace real fetches. */
const servers = new Map<string, { requests: number; answer: () => Response }>();
beforeEach(() => {
  vi.spyOn(globalThis, "fetch").mockImplementation(async (input) => {
    const server = servers.get(String(input));
    if (server === undefined) throw new Error(`nothing listens at ${String(input)}`);
    server.requests++;
    return server.answer();
  });
});

/** An application with its own key server, used by isolates in one location. */
async function makeWorld(keys: readonly JWK[]) {
  const url = `https://keys.example/${crypto.randomUUID()}`;
  const server = { requests: 0, answer: () => Response.json({ keys }) };
  servers.set(url, server);
  const app = await makeApp({ type: "jwks", url });
  const clock = new Clock();
  // The platform's cache uses real time, and a token is judged by the world's.
  clock.ms = Date.now();
  const token = ({ kid, privateKey }: SigningKey, headerKid = kid) =>
    new SignJWT({ sub: "u" })
      .setProtectedHeader({ alg: "ES256", kid: headerKid })
      .setExpirationTime(Math.floor(clock.ms / 1_000) + 3_600)
      .sign(privateKey);
  const isolate = () => {
    const call = makeClient(clock);
    return async (userToken: string): Promise<Answer> =>
      call("GET", "/api/v1/credits?userId=u", { key: app.keys.pk_live, headers: { "x-user-token": userToken } });
  };
  const publish = (published: readonly JWK[]) => {
    server.answer = () => Response.json({ keys: published });
  };
  return { server, clock, token, isolate, publish };
}

it("published keys are fetched once in ten minutes by all isolates of a location", async () => {
  const first = await makeSigningKey("first");
  const { server, clock, token, isolate } = await makeWorld([first.jwk]);
  for (let n = 0; n < 3; n++) {
    const ask = isolate();
    for (let request = 0; request < 3; request++) expect((await ask(await token(first))).status).toBe(200);
  }
  expect(server.requests).toBe(1);
  const ask = isolate();
  clock.advance(10 * MINUTE_MS - 1);
  expect((await ask(await token(first))).status).toBe(200);
  expect(server.requests).toBe(1);
  clock.advance(1);
  // Ten minutes from the fetch, not from when an isolate found them in the cache.
  expect((await ask(await token(first))).status).toBe(200);
  expect(server.requests).toBe(2);
});

it("published keys are fetched past the cache for an unknown kid, at most five times a minute", async () => {
  const [first, second, stranger] = [
    await makeSigningKey("first"),
    await makeSigningKey("second"),
    await makeSigningKey("x"),
  ];
  const { server, clock, token, isolate, publish } = await makeWorld([first.jwk]);
  expect((await isolate()(await token(first))).status).toBe(200);
  publish([second.jwk]);
  const ask = isolate();
  expect((await ask(await token(second))).status).toBe(200);
  expect(server.requests).toBe(2);
  // The next isolate finds the new keys in the cache.
  expect((await isolate()(await token(second))).status).toBe(200);
  expect(server.requests).toBe(2);
  for (let n = 0; n < 20; n++) expectError(await ask(await token(stranger, `kid-${n}`)), "invalid_user_token");
  expect(server.requests).toBeLessThanOrEqual(6);
  clock.advance(MINUTE_MS);
  for (let n = 0; n < 20; n++) expectError(await ask(await token(stranger, `kid-${n}`)), "invalid_user_token");
  expect(server.requests).toBeLessThanOrEqual(11);
  expect((await ask(await token(second))).status).toBe(200);
});

it("published keys are fetched from a failing server at most five times a minute, not with each request", async () => {
  const first = await makeSigningKey("first");
  const { server, clock, token, isolate, publish } = await makeWorld([first.jwk]);
  server.answer = () => new Response("down", { status: 500 });
  vi.spyOn(console, "warn").mockReturnValue();
  const ask = isolate();
  for (let n = 0; n < 30; n++) expectError(await ask(await token(first)), "temporarily_unavailable");
  expect(server.requests).toBe(5);
  publish([first.jwk]);
  clock.advance(MINUTE_MS);
  expect((await ask(await token(first))).status).toBe(200);
  expect(server.requests).toBe(6);
});

it("published keys are fetched at most five times from a server that hangs, whatever the number of requests", async () => {
  const first = await makeSigningKey("first");
  const { server, token, isolate } = await makeWorld([first.jwk]);
  vi.spyOn(console, "warn").mockReturnValue();
  let release = () => {};
  const hangs = new Promise<void>((resolve) => {
    release = resolve;
  });
  vi.mocked(fetch).mockImplementation(async () => {
    server.requests++;
    await hangs;
    throw new Error("The connection was lost.");
  });
  const [ask, sent] = [isolate(), await token(first)];
  const answers = Promise.all(Array.from({ length: 30 }, () => ask(sent)));
  await scheduler.wait(200);
  expect(server.requests).toBe(5);
  release();
  for (const answer of await answers) expectError(answer, "temporarily_unavailable");
  expect(server.requests).toBe(5);
});

it("published keys are available to many concurrent requests of a new isolate: none is rejected because of another's fetch", async () => {
  const first = await makeSigningKey("first");
  const { token, isolate } = await makeWorld([first.jwk]);
  const [ask, sent] = [isolate(), await token(first)];
  const answers = await Promise.all(Array.from({ length: 20 }, () => ask(sent)));
  expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 200));
});

it("published keys are rejected and not cached when the response is larger than 256 KiB, has more than 100 keys, or is not a key set", async () => {
  const first = await makeSigningKey("first");
  const { server, token, isolate, publish } = await makeWorld([first.jwk]);
  vi.spyOn(console, "warn").mockReturnValue();
  const others = (count: number) => Array.from({ length: count }, (_, n) => ({ ...first.jwk, kid: `other-${n}` }));
  const large = JSON.stringify({ keys: [first.jwk], padding: "x".repeat(256 * 1024) });
  const wrong: readonly (() => Response)[] = [
    () => new Response(large),
    () => Response.json({ keys: [...others(100), first.jwk] }),
    () => Response.json({ keys: 7 }),
    () => new Response("<html>"),
    () => new Response(null, { status: 302, headers: { location: "https://elsewhere.example" } }),
  ];
  for (const answer of wrong) {
    server.answer = answer;
    expectError(await isolate()(await token(first)), "temporarily_unavailable");
  }
  expect(server.requests).toBe(wrong.length);
  publish([...others(99), first.jwk]);
  expect((await isolate()(await token(first))).status).toBe(200);
});

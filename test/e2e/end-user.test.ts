import { exportSPKI, importJWK, SignJWT } from "jose";
import { beforeAll, describe, expect, it } from "vitest";
import { verifyEndUser } from "../../src/auth/end-user.ts";
import { PurserError } from "../../src/errors.ts";
import { type KeyServer, makeSigningKey, type SigningKey, signToken, startKeyServer } from "./support/key-server.ts";
import { type Server, sharedServer } from "./support/server.ts";

let server: Server;
beforeAll(async () => {
  server = await sharedServer();
});

/** Sends a request as a browser does, with the publishable key and the end-user's token. */
async function ask(key: string, token: string | undefined, userId = "u1"): Promise<string> {
  const headers = { authorization: `Bearer ${key}`, ...(token === undefined ? {} : { "x-user-token": token }) };
  const answer = await fetch(`${server.url}/api/v1/credits?userId=${userId}`, { headers });
  if (answer.status === 200) return "200";
  const { error } = (await answer.json()) as { error: { code: string } };
  return `${answer.status} ${error.code}`;
}

const REJECTED = "401 invalid_user_token";
const now = () => Math.floor(Date.now() / 1_000);
const base64url = (value: unknown) => Buffer.from(JSON.stringify(value)).toString("base64url");

/** Every error of a token's claims, as a function that makes valid claims invalid. */
const FLAWED: readonly (readonly [string, Record<string, unknown>])[] = [
  ["expired more than 60 seconds ago", { exp: now() - 120 }],
  ["without exp", { exp: undefined }],
  ["whose exp is no number", { exp: "tomorrow" }],
  ["that is not valid yet for more than 60 seconds", { nbf: now() + 120 }],
  ["of another issuer", { iss: "https://other.example.com" }],
  ["without an issuer", { iss: undefined }],
  ["for another audience", { aud: "other" }],
  ["without an audience", { aud: undefined }],
  ["without the claim that names the user", { uid: undefined }],
  ["whose claim is no text", { uid: 7 }],
  ["whose claim is empty", { uid: "" }],
];
const expected = { issuer: "https://auth.example.com", audience: "desk", claim: "uid" };
const good = { uid: "u1", iss: expected.issuer, aud: ["desk", "more"] };

async function expectBoundsKept(key: string, sign: (claims: Record<string, unknown>) => Promise<string>) {
  expect(await ask(key, await sign(good))).toBe("200");
  expect(await ask(key, await sign(good), "u2")).toBe("403 forbidden");
  expect(await ask(key, undefined)).toBe(REJECTED);
  for (const [flaw, claims] of FLAWED) {
    expect(await ask(key, await sign({ ...good, ...claims })), `a token ${flaw}`).toBe(REJECTED);
  }
  expect(await ask(key, await sign({ ...good, exp: now() - 50 })), "expired within the tolerance").toBe("200");
  expect(await ask(key, await sign({ ...good, nbf: now() + 50 })), "early within the tolerance").toBe("200");
  const [header = "", payload = "", signature = ""] = (await sign(good)).split(".");
  const altered = base64url({ ...good, uid: "u2", exp: now() + 60 });
  for (const token of [
    "x",
    "a.b.c",
    `${header}.${payload}`,
    `${header}.${payload}.`,
    `${header}.${altered}.${signature}`,
    `${base64url({ alg: "none" })}.${payload}.`,
    `${base64url({ alg: "none" })}.${payload}.${signature}`,
    `${base64url({ alg: "None", typ: "JWT" })}.${payload}.`,
  ]) {
    expect(await ask(key, token, "u1"), token.slice(0, 40)).toBe(REJECTED);
  }
}

const secret = "ein Geheimnis von mehr als 32 Bytes: äöü";

it("end-user tokens by a shared secret verify with the secret's UTF-8 bytes, within the setting's bounds", async () => {
  const app = await server.makeApp({ type: "hs256", secret, ...expected });
  const privateKey = new TextEncoder().encode(secret);
  const sign = (claims: Record<string, unknown>) => signToken({ alg: "HS256", kid: "any", privateKey }, claims);
  await expectBoundsKept(app.keys.pk_live, sign);
  const strangers = new TextEncoder().encode(`${secret}!`);
  const forged = await signToken({ alg: "HS256", kid: "any", privateKey: strangers }, good);
  expect(await ask(app.keys.pk_live, forged)).toBe(REJECTED);
  const stronger = await signToken({ alg: "HS512", kid: "any", privateKey: new Uint8Array(64).fill(97) }, good);
  expect(await ask(app.keys.pk_live, stronger)).toBe(REJECTED);
});

describe("end-user tokens by published keys", () => {
  let first: SigningKey;
  let keys: KeyServer;
  beforeAll(async () => {
    first = await makeSigningKey("first", "RS256");
  });
  const open = async (jwks = [first.jwk]) => {
    keys = await startKeyServer(jwks);
    const app = await server.makeApp({ type: "jwks", url: keys.url });
    return app.keys.pk_live;
  };

  it("verify within the setting's bounds, by any asymmetric algorithm", async () => {
    for (const alg of ["RS256", "PS384", "ES256", "EdDSA"]) {
      const signing = await makeSigningKey(alg, alg);
      keys = await startKeyServer([signing.jwk]);
      const app = await server.makeApp({ type: "jwks", url: keys.url, ...expected });
      if (alg === "RS256") await expectBoundsKept(app.keys.pk_live, (claims) => signToken(signing, claims));
      expect(await ask(app.keys.pk_live, await signToken(signing, good)), alg).toBe("200");
      expect(keys.requests).toBeLessThanOrEqual(2);
      await keys.close();
    }
  });

  it("are rejected if they are signed with the public key as a shared secret", async () => {
    const key = await open();
    for (const guess of [await publicPem(first), JSON.stringify(first.jwk), first.jwk.n ?? ""]) {
      const privateKey = new TextEncoder().encode(guess);
      const forged = await signToken({ alg: "HS256", kid: first.kid, privateKey });
      expect(await ask(key, forged)).toBe(REJECTED);
    }
    await keys.close();
  });

  it("verify after a rotation, also one right after the keys were fetched", async () => {
    const key = await open();
    expect(await ask(key, await signToken(first))).toBe("200");
    const second = await makeSigningKey("second");
    keys.keys = [second.jwk];
    expect(await ask(key, await signToken(second))).toBe("200");
    expect(await ask(key, await signToken(first))).toBe(REJECTED);
    const third = await makeSigningKey("third");
    keys.keys = [second.jwk, third.jwk];
    expect(await ask(key, await signToken(third))).toBe("200");
    await keys.close();
  });

  it("with an unpublished kid are rejected, and do not overload the key server", async () => {
    const key = await open();
    const stranger = await makeSigningKey("stranger");
    expect(await ask(key, await signToken(first))).toBe("200");
    const answers = new Set<string>();
    for (let n = 0; n < 30; n++) answers.add(await ask(key, await signToken(stranger, {}, { kid: `kid-${n}` })));
    expect([...answers]).toEqual([REJECTED]);
    expect(keys.requests).toBeLessThanOrEqual(7);
    expect(await ask(key, await signToken(first))).toBe("200");
    await keys.close();
  });

  it("without a kid verify with each published key, without another fetch", async () => {
    const [a, b] = [await makeSigningKey("a"), await makeSigningKey("b")];
    const key = await open([a.jwk, b.jwk]);
    for (let n = 0; n < 10; n++) {
      for (const signing of [a, b]) {
        expect(await ask(key, await signWithoutKid(signing))).toBe("200");
      }
    }
    const stranger = await signWithoutKid(await makeSigningKey("c"));
    expect(await ask(key, stranger)).toBe(REJECTED);
    expect(keys.requests).toBe(1);
    await keys.close();
  });

  it("cause temporarily_unavailable while the key server is down, and verify when it is back", async () => {
    const key = await open();
    const DOWN = "503 temporarily_unavailable";
    const token = await signToken(first);
    for (const [status, text] of [
      [500, null],
      [302, null],
      [200, "<html>"],
      [200, '{"keys":7}'],
    ] as const) {
      Object.assign(keys, { status, text });
      expect(await ask(key, token), `${status} ${text}`).toBe(DOWN);
    }
    Object.assign(keys, { status: 200, text: null });
    expect(await ask(key, token)).toBe("200");
    await keys.close();
    expect(await ask(key, token), "the keys are kept").toBe("200");
    expect(await ask(key, await signToken(await makeSigningKey("later")))).toBe(DOWN);
  });

  it("cause temporarily_unavailable when nothing listens at the key server's address", async () => {
    const key = await open();
    await keys.close();
    expect(await ask(key, await signToken(first))).toBe("503 temporarily_unavailable");
  });
});

const SECOND_MS = 1_000;
/** Verifies with the Worker's own function, at a time that the test sets. */
const verifying = (url: string) => {
  const isolate = {};
  return async (token: string, atMs: number) => {
    try {
      return await verifyEndUser({ isolate, now: () => atMs }, { type: "jwks", url }, token);
    } catch (error) {
      return error instanceof PurserError ? error.code : error;
    }
  };
};

it("a key that was replaced under the same kid, or has none is fetched for the first token that it signs, 30 seconds after the last fetch", async () => {
  for (const sign of [signToken, signWithoutKid]) {
    const [before, after] = [await makeSigningKey("same"), await makeSigningKey("same")];
    const keys = await startKeyServer([before.jwk]);
    const verify = verifying(keys.url);
    const startMs = Date.now();
    expect(await verify(await sign(before), startMs)).toMatchObject({ userId: "u1" });
    keys.keys = [after.jwk];
    expect(await verify(await sign(after), startMs + 29 * SECOND_MS)).toBe("invalid_user_token");
    expect(keys.requests).toBe(1);
    expect(await verify(await sign(after), startMs + 30 * SECOND_MS)).toMatchObject({ userId: "u1" });
    expect(await verify(await sign(before), startMs + 31 * SECOND_MS)).toBe("invalid_user_token");
    expect(keys.requests).toBe(2);
    await keys.close();
  }
});

it("a key that was replaced under the same kid, or has none is fetched when several keys fit a token without a kid", async () => {
  const [a, b, c] = [await makeSigningKey("a"), await makeSigningKey("b"), await makeSigningKey("c")];
  const keys = await startKeyServer([a.jwk, b.jwk]);
  const verify = verifying(keys.url);
  const startMs = Date.now();
  expect(await verify(await signWithoutKid(b), startMs)).toMatchObject({ userId: "u1" });
  keys.keys = [a.jwk, c.jwk];
  expect(await verify(await signWithoutKid(c), startMs + 30 * SECOND_MS)).toMatchObject({ userId: "u1" });
  await keys.close();
});

it("a key that was replaced under the same kid, or has none causes at most one request to the key server in 30 seconds, however many forged tokens arrive", async () => {
  const [real, forger] = [await makeSigningKey("same"), await makeSigningKey("same")];
  const keys = await startKeyServer([real.jwk]);
  const verify = verifying(keys.url);
  const startMs = Date.now();
  expect(await verify(await signToken(real), startMs)).toMatchObject({ userId: "u1" });
  const forged = await signToken(forger);
  for (let ms = 0; ms < 120 * SECOND_MS; ms += SECOND_MS) {
    expect(await verify(forged, startMs + ms)).toBe("invalid_user_token");
  }
  expect(keys.requests).toBe(4);
  await Promise.all(Array.from({ length: 50 }, () => verify(forged, startMs + 200 * SECOND_MS)));
  expect(keys.requests).toBeLessThanOrEqual(9);
  expect(await verify(await signToken(real), startMs + 200 * SECOND_MS)).toMatchObject({ userId: "u1" });
  await keys.close();
});

it("a key that was replaced under the same kid, or has none does not disable the known keys while the key server is down", async () => {
  const [real, other] = [await makeSigningKey("same"), await makeSigningKey("same")];
  const keys = await startKeyServer([real.jwk]);
  const verify = verifying(keys.url);
  const startMs = Date.now();
  expect(await verify(await signToken(real), startMs)).toMatchObject({ userId: "u1" });
  await keys.close();
  expect(await verify(await signToken(other), startMs + 30 * SECOND_MS)).toBe("temporarily_unavailable");
  expect(await verify(await signToken(real), startMs + 31 * SECOND_MS)).toMatchObject({ userId: "u1" });
});

async function publicPem(key: SigningKey): Promise<string> {
  const publicKey = await importJWK(key.jwk, key.alg);
  if (publicKey instanceof Uint8Array) throw new Error("a published key is asymmetric");
  return exportSPKI(publicKey);
}

async function signWithoutKid(key: SigningKey): Promise<string> {
  return new SignJWT({ sub: "u1", exp: now() + 3_600 }).setProtectedHeader({ alg: key.alg }).sign(key.privateKey);
}

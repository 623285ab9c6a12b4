import { beforeEach, expect, it, vi } from "vitest";
import { encodeBase64url, utf8 } from "../../../src/lib/encoding.ts";
import { END_USER_SECRET } from "../../support/end-user-setting.ts";
import {
  GOOD,
  hs256,
  judge,
  judgeByJose,
  makePair,
  mockKeyServer,
  NOW,
  pairFor,
  part,
  publish,
  SIGNING,
  sign,
} from "../../support/jwt-world.ts";

beforeEach(mockKeyServer);

const header = (fields: object = {}) => JSON.stringify({ alg: "RS256", kid: "first", ...fields });
const payload = JSON.stringify(GOOD);

it("the verification of an end-user token rejects a public key used as a shared secret, in any form", async () => {
  const { publicJwk } = await pairFor("RS256");
  const { setting, isolate } = publish([{ ...publicJwk, kid: "first" }]);
  const spki = await crypto.subtle.exportKey(
    "spki",
    await crypto.subtle.importKey("jwk", publicJwk as JsonWebKey, SIGNING.RS256 ?? "", true, ["verify"]),
  );
  const pem = `-----BEGIN PUBLIC KEY-----\n${btoa(String.fromCharCode(...new Uint8Array(spki as ArrayBuffer)))}\n-----END PUBLIC KEY-----\n`;
  for (const secret of [
    utf8(pem),
    new Uint8Array(spki as ArrayBuffer),
    utf8(JSON.stringify(publicJwk)),
    utf8(String(publicJwk.n)),
  ]) {
    const token = await sign("HS256", secret, header({ alg: "HS256" }), payload);
    expect(await judge(setting, token, isolate)).toBe("algorithm");
  }
});

it("the verification of an end-user token rejects a published shared secret, and the setting's secret under another algorithm", async () => {
  const secret = utf8(END_USER_SECRET);
  const { setting, isolate } = publish([{ kty: "oct", k: encodeBase64url(secret), kid: "first" }]);
  expect(await judge(setting, await sign("HS256", secret, header({ alg: "HS256" }), payload), isolate)).toBe(
    "algorithm",
  );
  expect(await judge(setting, await sign("HS256", secret, header(), payload), isolate)).toBe("no_key");
  expect(await judge(hs256, await sign("HS512", secret, header({ alg: "HS512" }), payload))).toBe("algorithm");
  const { privateJwk } = await pairFor("RS256");
  expect(await judge(hs256, await sign("RS256", privateJwk, header(), payload))).toBe("algorithm");
});

it("the verification of an end-user token rejects a token without a signature", async () => {
  const { publicJwk } = await pairFor("RS256");
  const { setting, isolate } = publish([{ ...publicJwk, kid: "first" }]);
  for (const alg of ["none", "None", "NONE", "constructor", "__proto__", "toString"]) {
    for (const token of [
      `${part(header({ alg }))}.${part(payload)}.`,
      `${part(header({ alg }))}.${part(payload)}.AAAA`,
    ]) {
      expect(await judge(setting, token, isolate), alg).toBe("algorithm");
      expect(await judge(hs256, token), alg).toBe("algorithm");
    }
  }
  expect(await judge(setting, `${part(header())}.${part(payload)}.`, isolate)).toBe("signature");
  expect(await judge(hs256, `${part(header({ alg: "HS256" }))}.${part(payload)}.`)).toBe("signature");
});

it("the verification of an end-user token rejects a signature by a key in the token's own header, and does not fetch the URLs there", async () => {
  const [pair, strangersPair] = [await pairFor("RS256"), await pairFor("RS256", "other")];
  const { setting, isolate } = publish([{ ...pair.publicJwk, kid: "first" }]);
  const fields = { jwk: strangersPair.publicJwk, jku: "https://evil.example/keys", x5u: "https://evil.example/cert" };
  const token = await sign("RS256", strangersPair.privateJwk, header(fields), payload);
  expect(await judge(setting, token, isolate)).toBe("signature");
  for (const [url] of vi.mocked(fetch).mock.calls) expect(String(url)).not.toContain("evil");
});

it("the verification of an end-user token rejects RSA keys of less than 2,048 bits", async () => {
  const { privateJwk, publicJwk } = await makePair("RS256", 1_024);
  const keys = [{ ...publicJwk, kid: "first" }];
  const { setting, isolate } = publish(keys);
  for (const alg of ["RS256", "PS256"]) {
    const token = await sign(alg, privateJwk, header({ alg }), payload);
    expect(await judge(setting, token, isolate), alg).toBe("no_key");
    expect(await judgeByJose(setting, keys, token), alg).toBeNull();
  }
  // A good key beside the weak one still verifies.
  const good = await pairFor("RS256");
  const both = publish([...keys, { ...good.publicJwk, kid: "first" }]);
  expect(await judge(both.setting, await sign("RS256", good.privateJwk, header(), payload), both.isolate)).toEqual(
    GOOD,
  );
});

it("the verification of an end-user token rejects keys of another curve, for another use, of another algorithm, and private keys", async () => {
  const [pair, widePair] = [await pairFor("ES256"), await pairFor("ES384")];
  const token = await sign("ES256", pair.privateJwk, header({ alg: "ES256" }), payload);
  const asWide = await sign("ES384", widePair.privateJwk, header({ alg: "ES256" }), payload);
  const jwk = { ...pair.publicJwk, kid: "first" };
  const accepts = publish([jwk]);
  expect(await judge(accepts.setting, token, accepts.isolate)).toEqual(GOOD);
  for (const [key, sent] of [
    [{ ...widePair.publicJwk, kid: "first" }, asWide],
    [{ ...widePair.publicJwk, crv: "P-256", kid: "first" }, asWide],
    [{ ...jwk, use: "enc" }, token],
    [{ ...jwk, key_ops: ["sign"] }, token],
    [{ ...jwk, key_ops: ["deriveBits"] }, token],
    [{ ...jwk, alg: "ES384" }, token],
    [{ ...pair.privateJwk, kid: "first" }, token],
    [{ ...jwk, y: jwk.x }, token],
    [{ ...jwk, x: undefined }, token],
    [null, token],
    ["key", token],
  ] as const) {
    const { setting, isolate } = publish([key]);
    expect(await judge(setting, sent, isolate), JSON.stringify(key)).toBe("no_key");
  }
});

it("the verification of an end-user token rejects critical extensions, and payloads that are not encoded", async () => {
  for (const fields of [
    { crit: ["b64"], b64: false },
    { crit: ["b64"], b64: true },
    { crit: ["exp"], exp: NOW + 60 },
    { crit: [] },
    { crit: null },
  ]) {
    const token = await sign("HS256", utf8(END_USER_SECRET), header({ alg: "HS256", ...fields }), payload);
    expect(await judge(hs256, token), JSON.stringify(fields)).toBe("malformed");
  }
  const signed = `${part(header({ alg: "HS256", b64: false }))}.${payload}`;
  expect(await judge(hs256, `${signed}.AAAA`)).toBe("malformed");
});

it("the verification of an end-user token reads the last of two members with the same name", async () => {
  const twice = async (fields: string, claims: string) =>
    judge(hs256, await sign("HS256", utf8(END_USER_SECRET), fields, claims));
  const more = payload.slice(1);
  expect(await twice(`{"alg":"none","alg":"HS256"}`, payload)).toEqual(GOOD);
  expect(await twice(`{"alg":"HS256","alg":"none"}`, payload)).toBe("algorithm");
  expect(await twice(header({ alg: "HS256" }), `{"sub":"bob",${more}`)).toEqual(GOOD);
  expect(await twice(header({ alg: "HS256" }), `${payload.slice(0, -1)},"exp":1}`)).toBe("expired");
  expect(await twice(`{"alg":"HS256","__proto__":{"alg":"none","crit":["x"]}}`, payload)).toEqual(GOOD);
  expect(await twice(`{"__proto__":{"alg":"HS256"}}`, payload)).toBe("malformed");
  expect(await twice(header({ alg: "HS256" }), `{"__proto__":${payload}}`)).toBe("issuer");
});

it("the verification of an end-user token rejects parts that are not JSON objects in UTF-8, and base64url that is not canonical", async () => {
  const key = utf8(END_USER_SECRET);
  const good = await sign("HS256", key, header({ alg: "HS256" }), payload);
  expect(await judge(hs256, good)).toEqual(GOOD);
  const [first = "", second = "", third = ""] = good.split(".");
  for (const token of [
    await sign("HS256", key, "[]", payload),
    await sign("HS256", key, header({ alg: "HS256" }), "[]"),
    await sign("HS256", key, header({ alg: "HS256" }), "null"),
    await sign("HS256", key, header({ alg: "HS256" }), `{"sub":${"[".repeat(100_000)}`),
    `${first}.${encodeBase64url(Uint8Array.of(0x7b, 0xff, 0x7d))}.${third}`,
    `${first}.${second}.${third}=`,
    `${first}.${second}.${third}\n`,
    ` ${first}.${second}.${third}`,
    `${first}.${second}.${third}.`,
    `${first}.${second}..${third}`,
    `${first}.${second}.${third.replaceAll("-", "+").replaceAll("_", "/")}!`,
    `.${second}.${third}`,
    `${first}..${third}`,
    "",
    "..",
  ]) {
    expect(await judge(hs256, token), token.slice(0, 60)).toBe("malformed");
  }
  // 32 bytes leave two bits of the last character unused. Only one of its four spellings is canonical.
  const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  const last = alphabet.indexOf(third.at(-1) ?? "");
  for (const bits of [1, 2, 3]) {
    expect(await judge(hs256, `${first}.${second}.${third.slice(0, -1)}${alphabet[last ^ bits]}`)).toBe("malformed");
  }
});

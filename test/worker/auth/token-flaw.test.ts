import { exportJWK, generateKeyPair, type JWK, SignJWT } from "jose";
import { beforeEach, describe, expect, it, vi } from "vitest";
import { END_USER_SECRET } from "../../support/end-user-setting.ts";
import { expectError } from "../../support/rejections.ts";
import { Clock, makeApp, makeClient } from "../../support/world.ts";

const JWKS_URL = "https://keys.example/jwks.json";
const clock = new Clock();
// The platform's cache uses real time.
clock.ms = Date.now();
const call = makeClient(clock);
const seconds = Math.floor(clock.ms / 1_000);

const BOUNDS = { issuer: "https://auth.example.com", audience: "desk", claim: "uid" };
const GOOD = { uid: "ana@example.com", iss: BOUNDS.issuer, aud: ["desk", "more"], exp: seconds + 600 };

type Sign = (claims: Record<string, unknown>, header?: { kid?: string }) => Promise<string>;

interface Signer {
  readonly setting: object;
  readonly sign: Sign;
  /** Signs with a key that is not the setting's, under the same `kid`. */
  readonly forge: Sign;
  readonly otherAlgorithm: Sign;
}

const bySecret = (secret: string, alg = "HS256"): Sign => {
  const key = new TextEncoder().encode(secret);
  return (claims) => new SignJWT(claims).setProtectedHeader({ alg }).sign(key);
};

const byKey = (key: CryptoKey, alg: string, kid: string): Sign => {
  return (claims, header = {}) => new SignJWT(claims).setProtectedHeader({ alg, kid, ...header }).sign(key);
};

let publishedKeys: JWK[] = [];
beforeEach(() => {
  vi.spyOn(globalThis, "fetch").mockImplementation(async () => Response.json({ keys: publishedKeys }));
});

const SIGNERS: Readonly<Record<"hs256" | "jwks", () => Promise<Signer>>> = {
  hs256: async () => ({
    setting: { type: "hs256", secret: END_USER_SECRET, ...BOUNDS },
    sign: bySecret(END_USER_SECRET),
    forge: bySecret(`${END_USER_SECRET}!`),
    otherAlgorithm: bySecret(END_USER_SECRET.repeat(2), "HS512"),
  }),
  jwks: async () => {
    const pair = await generateKeyPair("ES256", { extractable: true });
    const other = await generateKeyPair("ES256", { extractable: true });
    publishedKeys = [{ ...(await exportJWK(pair.publicKey)), kid: "first", alg: "ES256" }];
    return {
      setting: { type: "jwks", url: `${JWKS_URL}?${crypto.randomUUID()}`, ...BOUNDS },
      sign: byKey(pair.privateKey, "ES256", "first"),
      forge: byKey(other.privateKey, "ES256", "first"),
      otherAlgorithm: bySecret(END_USER_SECRET),
    };
  },
};

const base64url = (value: unknown) =>
  btoa(JSON.stringify(value)).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");

describe.each(["hs256", "jwks"] as const)(
  "the reason in the rejection of an end-user token (setting of type %s)",
  (type) => {
    /** Makes an application, and a function that lists credits with a token and returns the reason in the answer. */
    const world = async () => {
      const signer = await SIGNERS[type]();
      const { keys } = await makeApp(signer.setting);
      const reasonFor = async (token: string, userId = GOOD.uid): Promise<string> => {
        const headers = { "x-user-token": token };
        const path = `/api/v1/credits?userId=${encodeURIComponent(userId)}`;
        const answer = await call("GET", path, { key: keys.pk_live, headers });
        if (answer.status === 200) return "200";
        expectError(answer, "invalid_user_token");
        expect(Object.keys(answer.body.error.details)).toEqual(["reason"]);
        // The answer holds neither the token nor a part of it.
        for (const part of [token, ...token.split("."), GOOD.uid, BOUNDS.issuer]) {
          if (part.length > 3) expect(JSON.stringify(answer.body)).not.toContain(part);
        }
        return answer.body.error.details.reason;
      };
      return { ...signer, reasonFor };
    };

    it("is malformed, before all other reasons", async () => {
      const { sign, reasonFor } = await world();
      const [header = "", payload = "", signature = ""] = (await sign(GOOD)).split(".");
      for (const token of [
        "x",
        "a.b.c",
        "null",
        `Bearer ${header}.${payload}.${signature}`,
        `${header}.${payload}`,
        `${header}.${payload}.${signature}.x.y`,
        `${header}.${payload}.${signature}=`,
        `${header}.${base64url([1])}.${signature}`,
        `${header}.e30x.${signature}`,
        `${base64url({ typ: "JWT" })}.${payload}.${signature}`,
        `${base64url({ alg: "none" })}.${base64url("text")}.${signature}`,
      ]) {
        expect(await reasonFor(token), token.slice(0, 20)).toBe("malformed");
      }
    });

    it("is algorithm, before the key is looked up", async () => {
      const { otherAlgorithm, reasonFor } = await world();
      expect(await reasonFor(await otherAlgorithm({ ...GOOD, exp: 1 }))).toBe("algorithm");
      for (const alg of ["none", "None", "HS384", "XX256"]) {
        expect(await reasonFor(`${base64url({ alg })}.${base64url(GOOD)}.`), alg).toBe("algorithm");
      }
    });

    it("is no_key when the token names an unpublished key", async () => {
      const { sign, reasonFor } = await world();
      // A shared secret has no `kid`.
      const expected = type === "jwks" ? "no_key" : "200";
      expect(await reasonFor(await sign(GOOD, { kid: "unknown" }))).toBe(expected);
      if (type === "jwks") expect(await reasonFor(await sign({}, { kid: "unknown" }))).toBe("no_key");
    });

    it("is signature, before any claim", async () => {
      const { sign, forge, reasonFor } = await world();
      expect(await reasonFor(await forge({ exp: 1 }))).toBe("signature");
      const [header = "", , signature = ""] = (await sign(GOOD)).split(".");
      expect(await reasonFor(`${header}.${base64url({ ...GOOD, uid: "bob" })}.${signature}`, "bob")).toBe("signature");
      expect(await reasonFor(`${header}.${base64url(GOOD)}.`)).toBe("signature");
    });

    it("is that of the first failing check of the claims: expired, not_yet_valid, issuer, audience, claim", async () => {
      const { sign, reasonFor } = await world();
      const flaws: readonly (readonly [string, Record<string, unknown>])[] = [
        ["expired", { exp: seconds - 61 }],
        ["not_yet_valid", { nbf: seconds + 61 }],
        ["issuer", { iss: "https://other.example.com" }],
        ["audience", { aud: ["other"] }],
        ["claim", { uid: undefined }],
      ];
      for (const [index, [reason, claims]] of flaws.entries()) {
        expect(await reasonFor(await sign({ ...GOOD, ...claims }))).toBe(reason);
        const others = Object.assign({}, ...flaws.slice(index).map(([, flawed]) => flawed));
        expect(await reasonFor(await sign({ ...GOOD, ...others })), `${reason} and all after it`).toBe(reason);
      }
    });

    it("is that of the malformed claim: no issuer, no audience, no exp, times that are not numbers, a user that is not text", async () => {
      const { sign, reasonFor } = await world();
      const flaws: readonly (readonly [string, Record<string, unknown>])[] = [
        ["issuer", { iss: undefined }],
        ["issuer", { iss: undefined, exp: undefined }],
        ["audience", { aud: undefined }],
        ["audience", { aud: "Desk" }],
        ["claim", { exp: undefined }],
        ["claim", { exp: "tomorrow" }],
        ["claim", { exp: (seconds + 600) * 1_000 }],
        ["claim", { nbf: "now" }],
        ["claim", { uid: 7 }],
        ["claim", { uid: "" }],
        ["claim", { uid: undefined, sub: GOOD.uid }],
      ];
      for (const [reason, claims] of flaws) {
        expect(await reasonFor(await sign({ ...GOOD, ...claims })), JSON.stringify(claims)).toBe(reason);
      }
    });

    it("is absent for a valid token, even if clocks differ by a minute", async () => {
      const { sign, reasonFor } = await world();
      for (const claims of [{}, { exp: seconds - 59 }, { nbf: seconds + 60 }, { aud: "desk" }]) {
        expect(await reasonFor(await sign({ ...GOOD, ...claims }))).toBe("200");
      }
    });
  },
);

it("a call without an end-user token is rejected without a reason, and the message says where to send the token", async () => {
  const { keys } = await makeApp({ type: "hs256", secret: END_USER_SECRET });
  const answer = await call("GET", "/api/v1/credits?userId=u", { key: keys.pk_live });
  expectError(answer, "invalid_user_token");
  expect(answer.body.error.details).toBeUndefined();
  expect(answer.body.error.message).toContain("`X-User-Token`");
});

it("the message about an `exp` that is missing or in milliseconds asks for seconds", async () => {
  const { keys } = await makeApp({ type: "hs256", secret: END_USER_SECRET });
  for (const exp of [(seconds + 600) * 1_000, 1e11 + 1, undefined]) {
    const headers = { "x-user-token": await bySecret(END_USER_SECRET)({ sub: "u", exp }) };
    const answer = await call("GET", "/api/v1/credits?userId=u", { key: keys.pk_live, headers });
    expectError(answer, "invalid_user_token");
    expect(answer.body.error.details.reason).toBe("claim");
    expect(answer.body.error.message).toContain("seconds, not milliseconds");
  }
});

it("the message names the claim that the setting reads, and gives a hint if the token begins with Bearer or is a key", async () => {
  const { keys } = await makeApp({ type: "hs256", secret: END_USER_SECRET, claim: "uid" });
  const ask = (token: string) =>
    call("GET", "/api/v1/credits?userId=u", { key: keys.pk_live, headers: { "x-user-token": token } });
  const token = await bySecret(END_USER_SECRET)({ sub: "u", exp: seconds + 60 });
  expect((await ask(token)).body.error.message).toContain("claim `uid`");
  expect((await ask(`Bearer ${token}`)).body.error.message).toContain("without `Bearer`");
  for (const key of [keys.sk_live, keys.pk_live]) {
    const { error } = (await ask(key)).body;
    expect(error.message).toContain("is a key of Purser");
    expect(JSON.stringify(error)).not.toContain(key);
  }
});

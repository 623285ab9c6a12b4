import fc from "fast-check";
import { beforeEach, expect, it } from "vitest";
import type { EndUserSetting } from "../../../src/auth/end-user-setting.ts";
import { decodeBase64url, utf8 } from "../../../src/lib/encoding.ts";
import { END_USER_SECRET } from "../../support/end-user-setting.ts";
import {
  ASYMMETRIC,
  GOOD,
  hs256,
  judge,
  judgeByJose,
  mockKeyServer,
  NOW,
  pairFor,
  publish,
  SIGNING,
  sign,
} from "../../support/jwt-world.ts";
import { isSoak } from "../../support/soak.ts";

/** How many random tokens are judged for each algorithm. */
const RUNS_PER_ALGORITHM = isSoak ? 200 : 100;

beforeEach(mockKeyServer);

/** Whether Purser rejects the token although jose accepts it: base64url is not canonical, `crit` is present, or `exp` is in milliseconds. */
function isStricter(token: string): boolean {
  const parts = token.split(".");
  if (parts.some((text) => decodeBase64url(text) === null)) return true;
  const read = (part = "") => JSON.parse(new TextDecoder().decode(decodeBase64url(part) ?? utf8("{}")));
  return read(parts[0]).crit !== undefined || read(parts[1]).exp > 1e11;
}

const usually = <T>(value: T, ...others: fc.Arbitrary<T>[]): fc.Arbitrary<T> =>
  fc.oneof({ weight: 14, arbitrary: fc.constant(value) }, ...others);
const absent = fc.constant(undefined);
const instant = fc.oneof(
  fc.integer({ min: NOW - 62, max: NOW - 58 }),
  fc.integer({ min: NOW + 58, max: NOW + 62 }),
  fc.double({ min: NOW - 61, max: NOW - 59, noNaN: true }),
  fc.constantFrom<unknown>("tomorrow", null, true, [NOW], 0, -1, 1e300, String(NOW + 60)),
  absent,
);
const claimsArbitrary = fc.record({
  sub: usually<unknown>("ana", fc.constantFrom("", 7, null), absent),
  exp: usually<unknown>(NOW + 600, instant),
  nbf: usually<unknown>(undefined, instant),
  iat: usually<unknown>(NOW, instant),
  iss: usually<unknown>(GOOD.iss, fc.constantFrom<unknown>(null, [GOOD.iss], `${GOOD.iss}/`), absent),
  aud: usually<unknown>(
    "desk",
    fc.constantFrom<unknown>(["desk"], ["a", "desk"], [], "Desk", [["desk"]], null),
    absent,
  ),
});
const headerArbitrary = (alg: string) =>
  fc.record({
    alg: usually<unknown>(alg, fc.constantFrom<unknown>(...Object.keys(SIGNING), "none", "", "rs256", "__proto__", 7)),
    kid: usually<unknown>("first", fc.constantFrom<unknown>("second", "other", "", 7, null, ["first"]), absent),
    typ: usually<unknown>("JWT", fc.constantFrom<unknown>("at+jwt", "JOSE", 7), absent),
    crit: usually<unknown>(undefined, fc.constantFrom<unknown>([], ["b64"], ["exp"], "b64", null, ["kid"])),
    b64: usually<unknown>(undefined, fc.boolean()),
    jwk: usually<unknown>(undefined, fc.constant({ kty: "oct", k: "AAAA" })),
  });
/** The fields of a published key, some of them wrong. */
const keyArbitrary = (alg: string) =>
  fc.record({
    alg: usually<unknown>(alg, fc.constantFrom<unknown>("RS256", "ES256", "HS256", 7), absent),
    use: usually<unknown>("sig", fc.constantFrom<unknown>("enc", null), absent),
    key_ops: usually<unknown>(
      undefined,
      fc.constantFrom<unknown>(["verify"], ["sign"], [], "verify", ["verify", "sign"]),
    ),
    kid: usually<unknown>("first", fc.constantFrom<unknown>("second", 7), absent),
    kty: usually<unknown>(undefined, fc.constantFrom<unknown>("RSA", "EC", "OKP", "oct", "AKP")),
    crv: usually<unknown>(undefined, fc.constantFrom<unknown>("P-256", "P-384", "Ed25519", "X25519")),
    d: usually<unknown>(undefined, fc.constantFrom<unknown>("AQAB", "")),
    isStrangers: usually(false, fc.constant(true)),
  });

type Mutation = (token: string) => string;
const at = (text: string, place: number): number => Math.floor(place * text.length);
const place = fc.double({ min: 0, max: 0.999_999, noNaN: true });
const mutationArbitrary: fc.Arbitrary<Mutation> = usually<Mutation>(
  (token) => token,
  fc.tuple(place, fc.constantFrom(..."AQgwBZaz09-_.=+/ \n")).map(
    ([where, character]) =>
      (token: string) =>
        `${token.slice(0, at(token, where))}${character}${token.slice(at(token, where) + 1)}`,
  ),
  fc.tuple(place, fc.constantFrom("A", "=", ".", " ")).map(
    ([where, character]) =>
      (token: string) =>
        `${token.slice(0, at(token, where))}${character}${token.slice(at(token, where))}`,
  ),
  place.map((where) => (token: string) => token.slice(0, at(token, where)) + token.slice(at(token, where) + 1)),
  // Changes an unused bit in the last character of a part.
  fc.constantFrom(0, 1, 2).map((index) => (token: string) => {
    const parts = token.split(".");
    const text = parts[index] ?? "";
    const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    parts[index] = text.slice(0, -1) + (alphabet[alphabet.indexOf(text.at(-1) ?? "") ^ 1] ?? "");
    return parts.join(".");
  }),
  fc.shuffledSubarray([0, 1, 2], { minLength: 2 }).map((order) => (token: string) => {
    const parts = token.split(".");
    return order.map((index) => parts[index]).join(".");
  }),
);

/** Expects Purser and jose to agree, except where Purser is stricter. The claims of accepted tokens must be equal. */
async function expectAgreement(setting: EndUserSetting, keys: readonly unknown[], token: string, isolate = {}) {
  const [ours, theirs] = [await judge(setting, token, isolate), await judgeByJose(setting, keys, token)];
  if (typeof ours === "object") expect(ours).toEqual(theirs);
  else if (theirs !== null) expect(isStricter(token), `${ours}: ${token}`).toBe(true);
  return typeof ours === "object" ? "accepted" : ours;
}

it.each(ASYMMETRIC)(
  "Purser agrees with jose, except where Purser is stricter, on random tokens signed with %s and judged by published keys",
  { timeout: 120_000 },
  async (alg) => {
    const [pair, strangersPair] = [await pairFor(alg), await pairFor(alg, "other")];
    const verdicts = new Map<string, number>();
    const set = fc.array(keyArbitrary(alg), { minLength: 1, maxLength: 3 });
    const tried = [headerArbitrary(alg), claimsArbitrary, mutationArbitrary, set] as const;
    const property = fc.asyncProperty(...tried, async (header, claims, mutate, kinds) => {
      const keys = kinds.map(({ isStrangers, ...fields }) => {
        const jwk = { ...(isStrangers ? strangersPair : pair).publicJwk };
        return Object.assign(jwk, JSON.parse(JSON.stringify(fields)));
      });
      const { setting, isolate } = publish(keys);
      const token = mutate(await sign(alg, pair.privateJwk, JSON.stringify(header), JSON.stringify(claims)));
      const verdict = await expectAgreement(setting, keys, token, isolate);
      verdicts.set(verdict, (verdicts.get(verdict) ?? 0) + 1);
    });
    await fc.assert(property, { numRuns: RUNS_PER_ALGORITHM });
    // The random tokens must include each verdict.
    for (const verdict of ["accepted", "malformed", "no_key"])
      expect(verdicts.get(verdict), verdict).toBeGreaterThan(0);
  },
);

it("Purser agrees with jose, except where Purser is stricter, on random tokens signed with HS256 and judged by a secret", {
  timeout: 60_000,
}, async () => {
  const tried = [headerArbitrary("HS256"), claimsArbitrary, mutationArbitrary] as const;
  let accepted = 0;
  const property = fc.asyncProperty(...tried, async (header, claims, mutate) => {
    const token = mutate(await sign("HS256", utf8(END_USER_SECRET), JSON.stringify(header), JSON.stringify(claims)));
    if ((await expectAgreement(hs256, [], token)) === "accepted") accepted++;
  });
  await fc.assert(property, { numRuns: 4 * RUNS_PER_ALGORITHM });
  expect(accepted).toBeGreaterThan(RUNS_PER_ALGORITHM / 2);
});

import { expect, it } from "vitest";
import {
  type ExportClaims,
  type ExportSecrets,
  openToken,
  signToken,
  TOKEN_LIFE_MS,
} from "../../src/exports/create-link.ts";
import { encodeBase64url, signHmac } from "../../src/lib/encoding.ts";
import { iso } from "../../src/lib/time.ts";

const LINK_SECRET = "a-secret-of-the-tests";
const secrets: ExportSecrets = { current: LINK_SECRET, previous: null };
const NOW_MS = Date.UTC(2026, 0, 15, 12);
const claims: ExportClaims = {
  appId: "app_1",
  mode: "live",
  distinctId: "Zoë 🦊",
  expiresAt: iso(NOW_MS + TOKEN_LIFE_MS),
};

const BASE64URL = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
const NOT_BASE64URL = [".", "=", "+", "/", " ", "%", "\t", "\n", "\u0000", "~", "é", "А", "🦊", ""];

const isRejected = async (token: string, given = secrets, nowMs = NOW_MS): Promise<boolean> =>
  (await openToken(token, given, nowMs)) === null;

/** Signs any text as a payload, as only the holder of the secret can. */
const signed = async (payload: string, secret = LINK_SECRET): Promise<string> => {
  const first = encodeBase64url(new TextEncoder().encode(payload));
  return `${first}.${encodeBase64url(await signHmac(secret, first))}`;
};

const expectAllRejected = async (tokens: readonly string[]): Promise<void> => {
  const passed: string[] = [];
  for (let index = 0; index < tokens.length; index += 500) {
    const batch = tokens.slice(index, index + 500);
    const refused = await Promise.all(batch.map((token) => isRejected(token)));
    passed.push(...batch.filter((_, at) => !refused[at]));
  }
  expect(passed).toEqual([]);
};

it("an export token is the payload of exactly four fields and its HMAC, both base64url", async () => {
  const [payload = "", mac = "", ...rest] = (await signToken(claims, LINK_SECRET)).split(".");
  expect(rest).toEqual([]);
  const json = Buffer.from(payload, "base64url").toString();
  expect(json).toBe(
    `{"appId":"app_1","mode":"live","distinctId":"Zoë 🦊","expiresAt":"${iso(NOW_MS + TOKEN_LIFE_MS)}"}`,
  );
  const { createHmac } = await import("node:crypto");
  expect(mac).toBe(createHmac("sha256", Buffer.from(LINK_SECRET, "utf8")).update(payload, "ascii").digest("base64url"));
});

it("an export token opens to the signed fields", async () => {
  expect(await openToken(await signToken(claims, LINK_SECRET), secrets, NOW_MS)).toEqual(claims);
});

it("an export token is rejected with any one character changed or missing", async () => {
  const token = await signToken(claims, LINK_SECRET);
  const altered: string[] = [];
  for (let index = 0; index < token.length; index++) {
    for (const character of [...BASE64URL, ...NOT_BASE64URL]) {
      if (character !== token[index]) altered.push(token.slice(0, index) + character + token.slice(index + 1));
    }
  }
  expect(altered.length).toBeGreaterThan(token.length * 76);
  await expectAllRejected(altered);
});

it("an export token is rejected with any one character inserted", async () => {
  const token = await signToken(claims, LINK_SECRET);
  const altered: string[] = [];
  for (let index = 0; index <= token.length; index++) {
    for (const character of ["A", "_", ...NOT_BASE64URL.filter((other) => other !== "")]) {
      altered.push(token.slice(0, index) + character + token.slice(index));
    }
  }
  await expectAllRejected(altered);
});

it("an export token is rejected in every other encoding of the same bytes", async () => {
  // Payloads of each length modulo 3, so that both halves end in stray bits or in none.
  for (const distinctId of ["a", "aa", "aaa"]) {
    const token = await signToken({ ...claims, distinctId }, LINK_SECRET);
    const [payload = "", mac = ""] = token.split(".");
    const sameBytes = (half: string): string[] => {
      const spelt = [...BASE64URL].map((last) => half.slice(0, -1) + last);
      const bytes = Buffer.from(half, "base64url");
      const same = spelt.filter((text) => text !== half && Buffer.from(text, "base64url").equals(bytes));
      return [...same, `${half}=`, `${half}==`, ` ${half}`, `${half}\n`, half.replace(/.{4}/g, "$& ")];
    };
    expect(sameBytes(mac).length).toBeGreaterThanOrEqual(3 + 5);
    await expectAllRejected([
      ...sameBytes(payload).map((half) => `${half}.${mac}`),
      ...sameBytes(mac).map((half) => `${payload}.${half}`),
      ...[token.replaceAll("-", "+"), token.replaceAll("_", "/")].filter((text) => text !== token),
    ]);
    expect(await isRejected(token)).toBe(false);
  }
});

it("an export token is rejected when its parts are missing, swapped, repeated or from another token", async () => {
  const token = await signToken(claims, LINK_SECRET);
  const other = await signToken({ ...claims, distinctId: "somebody else" }, LINK_SECRET);
  const [payload = "", mac = ""] = token.split(".");
  await expectAllRejected([
    "",
    ".",
    payload,
    mac,
    `${payload}.`,
    `.${mac}`,
    `${mac}.${payload}`,
    `${token}.`,
    `.${token}`,
    `${token}.${mac}`,
    `${token}${token}`,
    `${other.split(".")[0]}.${mac}`,
    `${payload}.${other.split(".")[1]}`,
  ]);
});

it("an export token is rejected when it is signed with an unknown secret, and opens with the previous secret", async () => {
  const token = await signToken(claims, "the-secret-before-this");
  expect(await isRejected(token)).toBe(true);
  expect(await isRejected(token, { current: LINK_SECRET, previous: "some-other-secret" })).toBe(true);
  expect(
    await openToken(token, { current: LINK_SECRET, previous: "the-secret-before-this" }, NOW_MS),
    "rotation leaves no dead links",
  ).toEqual(claims);
});

it("an export token is valid until the millisecond that it names, and not later", async () => {
  const token = await signToken(claims, LINK_SECRET);
  expect(await isRejected(token, secrets, NOW_MS + TOKEN_LIFE_MS)).toBe(false);
  expect(await isRejected(token, secrets, NOW_MS + TOKEN_LIFE_MS + 1)).toBe(true);
});

it("an export token is rejected while it expires in more than 24 hours, even with a correct signature", async () => {
  const token = await signToken({ ...claims, expiresAt: iso(NOW_MS + TOKEN_LIFE_MS + 1) }, LINK_SECRET);
  expect(await isRejected(token)).toBe(true);
  expect(await isRejected(token, secrets, NOW_MS + 1)).toBe(false);
});

it("an export token is rejected when its payload is not exactly the four fields, even with a correct signature", async () => {
  const json = (change: object): string => JSON.stringify({ ...claims, ...change });
  const payloads = [
    "",
    "null",
    "[]",
    "{}",
    "not json",
    json({ extra: 1 }),
    json({ appId: undefined }),
    json({ appId: 1 }),
    json({ mode: "LIVE" }),
    json({ mode: undefined }),
    json({ distinctId: null }),
    json({ distinctId: ["a"] }),
    json({ expiresAt: NOW_MS + 1_000 }),
    json({ expiresAt: "tomorrow" }),
    json({ expiresAt: "2026-01-15" }),
    `[${json({})}]`,
    `${json({})}x`,
    `\ufeff${json({})}`,
  ];
  await expectAllRejected(await Promise.all(payloads.map((payload) => signed(payload))));
  expect(await isRejected(await signed(json({})))).toBe(false);
});

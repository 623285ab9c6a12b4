import type { Context } from "hono";
import { deleteCookie, getCookie, setCookie } from "hono/cookie";
import { DIGITS } from "../lib/encoding.ts";
import { signHmac } from "../lib/hash.ts";
import { openSealed, sealText } from "../lib/seal.ts";
import type { DashboardEnv } from "./env.ts";
import { adminTokenOf, cookieOptions } from "./session.ts";

const COOKIE = "purser_once";
const SECONDS = 120;

const contextOf = (c: Context<DashboardEnv>, purpose: string) =>
  `dashboard once\n${purpose}\n${c.var.session.sessionId}`;

/**
 * Keeps what the next page shows once, such as a new key: the page of an act is a redirect, so that it can be reloaded.
 * The browser carries it, sealed for this session, for two minutes at most.
 */
export async function keepOnce(c: Context<DashboardEnv>, purpose: string, value: object): Promise<void> {
  const sealed = await sealText(adminTokenOf(c.var.root.settings), contextOf(c, purpose), JSON.stringify(value));
  setCookie(c, COOKIE, sealed, { ...cookieOptions(c), maxAge: SECONDS });
}

/** What `keepOnce` kept for this purpose, for the only time. Null when there is nothing. */
export async function takeOnce<Value extends object>(c: Context<DashboardEnv>, purpose: string): Promise<Value | null> {
  const sealed = getCookie(c, COOKIE);
  if (sealed === undefined) return null;
  const text = await openSealed([adminTokenOf(c.var.root.settings)], contextOf(c, purpose), sealed);
  if (text === null) return null;
  deleteCookie(c, COOKIE, cookieOptions(c));
  // Sealed, so `keepOnce` wrote it, for this purpose.
  return JSON.parse(text) as Value;
}

const RANDOM_LENGTH = 22;

/** 22 characters of base62 that follow from a form's `nonce` and the admin token: sent twice, a form makes one thing. */
export async function randomOf(c: Context<DashboardEnv>, nonce: string): Promise<string> {
  const text = contextOf(c, `random\n${nonce}`);
  const mac = await signHmac(adminTokenOf(c.var.root.settings), text);
  let rest = mac.reduce((number, byte) => (number << 8n) | BigInt(byte), 0n);
  let digits = "";
  while (digits.length < RANDOM_LENGTH) {
    digits += DIGITS.charAt(Number(rest % 62n));
    rest /= 62n;
  }
  return digits;
}

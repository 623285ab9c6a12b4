import type { Context } from "hono";
import { PurserError } from "../errors.ts";
import type { AppEnv } from "../http/factory.ts";

const BEARER = /^Bearer +([^\s]+) *$/i;

/** The bearer token of the request; `invalid_key` when there is none. */
export function bearerToken(c: Context<AppEnv>): string {
  const token = BEARER.exec(c.req.header("authorization") ?? "")?.[1];
  if (token === undefined) throw invalidKey("Send a key as `Authorization: Bearer <key>`.");
  return token;
}

export function invalidKey(message = "The key is not valid."): PurserError {
  return new PurserError("invalid_key", message, { headers: { "WWW-Authenticate": "Bearer" } });
}

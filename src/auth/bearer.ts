import type { Context } from "hono";
import { PurserError } from "../errors.ts";
import type { AppEnv } from "../http/factory.ts";
import { absentKeyAdvice, headerAdvice } from "./key-mistakes.ts";

const BEARER = /^Bearer +([^\s]+) *$/i;

/** The bearer token of the request; `invalid_key` when there is none. */
export function bearerToken(c: Context<AppEnv>): string {
  const header = c.req.header("authorization");
  const token = BEARER.exec(header ?? "")?.[1];
  if (token !== undefined) return token;
  throw invalidKey(
    header === undefined
      ? absentKeyAdvice(
          (name) => c.req.header(name),
          (name) => c.req.query(name),
        )
      : headerAdvice(header),
  );
}

/** `invalid_key` (401). By itself it says of a well-formed key that it is not in force. */
export function invalidKey(
  message = "The key is unknown or was revoked. Send one that the application has on this deployment.",
): PurserError {
  return new PurserError("invalid_key", message, { headers: { "WWW-Authenticate": "Bearer" } });
}

import { gzipSync } from "node:zlib";
import { writeKey } from "../src/auth/key.ts";
import { filled, MIB, type Shape, times, utf8 } from "./worst-shapes.ts";

/** What a request that nobody vouches for may take: it is refused before its body is unpacked or parsed (L2). */
const CPU_SECONDS_MAX = 0.1;

/** Requests with keys that nobody was given, or none. */
export function arrivalShapes(appId: string): Shape[] {
  const made = (kind: "secret" | "publishable") => writeKey(kind, { id: 1, appId, mode: "live" }, "m".repeat(22));
  const shape = (
    name: string,
    path: string,
    body: Uint8Array,
    headers: Readonly<Record<string, string>> = {},
  ): Shape => ({
    ...{ name: `unknown: ${name}`, path, body, bytes: body.length, headers, cpuSecondsMax: CPU_SECONDS_MAX },
  });
  const digits = "1".repeat(MIB - 100);
  const texts: readonly (readonly [string, string])[] = [
    ["a megabyte of digits", `[${digits}]`],
    ["long numbers", filled("[", "12345678901234567890,", "1]", MIB)],
    ["a long number and many", filled("[12345678901234567890,", "1,", "1]", MIB)],
    ["64 KiB of a long number and many", filled("[12345678901234567890,", "1,", "1]", 64 * 1024)],
    ["names", `{${times(90_000, (n) => `"${n.toString(36)}":1`).join()}}`],
  ];
  const bearer = (key: string) => ({ authorization: `Bearer ${key}`, "content-type": "application/json" });
  const batch = (key: string) =>
    gzipSync(filled(`{"api_key":"${key}","batch":[`, '{"event":"e","distinct_id":"u"},', "{}]}", 10 * MIB));
  const form = { "content-type": "application/x-www-form-urlencoded", "sec-fetch-site": "same-origin" };
  return [
    ...texts.flatMap(([name, text]) => [
      shape(`${name}, a key of the right form`, "/api/v1/usage/events", utf8(text), bearer(made("secret"))),
      shape(`${name}, a key of no form`, "/api/v1/usage/events", utf8(text), bearer(`sk_live_${"1".repeat(8_000)}`)),
    ]),
    shape("a key of a megabyte in a batch", "/batch/", utf8(`{"api_key":"sk_live_${digits}","batch":[]}`)),
    shape("gzip to /e/", "/e/", batch(made("publishable"))),
    shape("gzip to /i/v1", "/i/v1/analytics/events", batch("x"), bearer(made("publishable"))),
    shape("gzip to /flags/", "/flags/", batch(made("publishable"))),
    shape("a signature of Stripe's that has no form", `/api/v1/stripe/${appId}/live`, utf8(`[${digits}]`), {
      "stripe-signature": "none",
    }),
    shape("a sign-in with a malformed name", "/admin/sign-in", utf8("name=%00&token=none"), form),
    { ...shape("health", "/health", new Uint8Array()), method: "GET" },
  ];
}

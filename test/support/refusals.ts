import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { type ErrorCode, errorStatus } from "../../src/errors.ts";
import { sha256 } from "../../src/lib/encoding.ts";
import { type Answer, type Client, Clock, makeApp, makeClient, type TestApp } from "./world.ts";

/** Expects this refusal, with the status of the catalogue and the shape of every error (W4). */
export function expectError(answer: Answer, code: ErrorCode, param?: string): void {
  const { error } = answer.body ?? {};
  expect({ status: answer.status, code: error?.code }).toEqual({ status: errorStatus[code], code });
  if (param !== undefined) expect(error.param).toBe(param);
  const known = ["code", "details", "message", "param", "requestId"];
  expect(Object.keys(error).filter((key) => !known.includes(key))).toEqual([]);
  expect(typeof error.message).toBe("string");
  expect(error.requestId).toBe(answer.headers.get("x-request-id"));
  if (answer.status === 401 && code === "invalid_key") expect(answer.headers.get("www-authenticate")).toBe("Bearer");
  if (answer.status === 503 || code === "rate_limited") expect(answer.headers.get("retry-after")).not.toBeNull();
}

interface Attempt {
  readonly method: string;
  readonly path: string;
  readonly body?: unknown;
}

export interface Guarded {
  /** Creates what the call needs, and returns a call that succeeds with the application's live secret key. */
  readonly prepare: (call: Client, app: TestApp) => Attempt | Promise<Attempt>;
  /** The code for a publishable key; `end-user` if it is allowed with a user token. */
  readonly publishable: "forbidden" | "requires_secret_key" | "end-user";
  /** The result for another application with the same ids: a code, or a 200 without data. */
  readonly stranger: Rebuff;
  /** The result for the other mode, if it is different. Packs, for example, are shared by both modes. */
  readonly otherMode?: Rebuff;
}

type Rebuff = ErrorCode | ((answer: Answer) => void);

const END_USER_SETTING = { type: "hs256", secret: "a-secret-of-32-bytes-and-no-less!" };

/** The refusals of a route that needs a key: for every wrong caller. The right caller succeeds. */
export function describeRefusals(route: string, guarded: Guarded): void {
  const world = async () => {
    const call = makeClient(new Clock());
    const app = await makeApp(END_USER_SETTING);
    const attempt = await guarded.prepare(call, app);
    const send = (key?: string, headers: Record<string, string> = {}) =>
      call(attempt.method, attempt.path, {
        ...(key === undefined ? {} : { key }),
        ...(attempt.body === undefined ? {} : { body: attempt.body }),
        headers,
      });
    return { app, send };
  };
  const expectRebuff = (answer: Answer, rebuff: Rebuff) => {
    if (typeof rebuff === "string") return expectError(answer, rebuff);
    expect(answer.status).toBe(200);
    rebuff(answer);
  };

  describe(`${route}, called by those who may not`, () => {
    it("refuses a request without a key, or with a header that is no bearer key", async () => {
      const { app, send } = await world();
      expectError(await send(), "invalid_key");
      for (const authorization of ["", "Bearer", `Basic ${app.keys.sk_live}`, app.keys.sk_live, "Bearer a b"]) {
        expectError(await send(undefined, { authorization }), "invalid_key");
      }
    });

    it("refuses a key that nobody was given", async () => {
      const { app, send } = await world();
      const other = app.keys.sk_live.endsWith("A") ? "B" : "A";
      for (const key of ["sk_live_", `${app.keys.sk_live.slice(0, -1)}${other}`, `${app.keys.sk_live}'--`]) {
        expectError(await send(key), "invalid_key");
      }
    });

    it("refuses a key that was revoked", async () => {
      const { app, send } = await world();
      await env.DB.prepare("UPDATE api_keys SET revoked_at_ms = 1 WHERE hash = ?")
        .bind(await sha256(app.keys.sk_live))
        .run();
      expectError(await send(app.keys.sk_live), "invalid_key");
    });

    it("refuses a publishable key as decided", async () => {
      const { app, send } = await world();
      const code = guarded.publishable === "end-user" ? "invalid_user_token" : guarded.publishable;
      expectError(await send(app.keys.pk_live), code);
    });

    it("shows another application nothing of this one's", async () => {
      const { send } = await world();
      expectRebuff(await send((await makeApp()).keys.sk_live), guarded.stranger);
    });

    it("shows the other mode nothing of this one's", async () => {
      const { app, send } = await world();
      expectRebuff(await send(app.keys.sk_test), guarded.otherMode ?? guarded.stranger);
    });

    it("lets the rightful caller pass, so that the refusals above mean something", async () => {
      const { app, send } = await world();
      expect((await send(app.keys.sk_live)).status).toBe(200);
    });
  });
}

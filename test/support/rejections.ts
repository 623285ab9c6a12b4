import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { type ErrorCode, errorStatus } from "../../src/errors.ts";
import { sha256 } from "../../src/lib/encoding.ts";
import { END_USER_SETTING } from "./end-user-setting.ts";
import { type Answer, type Client, Clock, makeApp, makeClient, type TestApp } from "./world.ts";

/** Expects an error with this code, the code's status, and the shape that every error has (W4). */
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

interface RouteCall {
  readonly method: string;
  readonly path: string;
  readonly body?: unknown;
}

export interface Guarded {
  /** Prepares a call that succeeds with the application's live secret key. */
  readonly prepare: (call: Client, app: TestApp) => RouteCall | Promise<RouteCall>;
  /** The code for a publishable key. `end-user`: the key is allowed with a user token. */
  readonly publishable: "forbidden" | "requires_secret_key" | "end-user";
  /** The result of the same call with another application's key: a code, or a check of a response with 200. */
  readonly stranger: StrangerResult;
  /** The result of the same call with a key of the other mode, if it differs from `stranger`. Both modes share packs, for example. */
  readonly otherMode?: StrangerResult;
}

type StrangerResult = ErrorCode | ((answer: Answer) => void);

/** Defines the tests that a route rejects every wrong key and accepts the right one. */
export function describeRejections(route: string, guarded: Guarded): void {
  const world = async () => {
    const call = makeClient(new Clock());
    const app = await makeApp(END_USER_SETTING);
    const routeCall = await guarded.prepare(call, app);
    const send = (key?: string, headers: Record<string, string> = {}) =>
      call(routeCall.method, routeCall.path, {
        ...(key === undefined ? {} : { key }),
        ...(routeCall.body === undefined ? {} : { body: routeCall.body }),
        headers,
      });
    return { app, send };
  };
  const expectResult = (answer: Answer, result: StrangerResult) => {
    if (typeof result === "string") return expectError(answer, result);
    expect(answer.status).toBe(200);
    result(answer);
  };

  describe(route, () => {
    it("rejects a request without a key, or with a malformed authorization header", async () => {
      const { app, send } = await world();
      expectError(await send(), "invalid_key");
      for (const authorization of ["", "Bearer", `Basic ${app.keys.sk_live}`, app.keys.sk_live, "Bearer a b"]) {
        expectError(await send(undefined, { authorization }), "invalid_key");
      }
    });

    it("rejects an altered key", async () => {
      const { app, send } = await world();
      const other = app.keys.sk_live.endsWith("A") ? "B" : "A";
      for (const key of ["sk_live_", `${app.keys.sk_live.slice(0, -1)}${other}`, `${app.keys.sk_live}'--`]) {
        expectError(await send(key), "invalid_key");
      }
    });

    it("rejects a revoked key", async () => {
      const { app, send } = await world();
      await env.DB.prepare("UPDATE api_keys SET revoked_at_ms = 1 WHERE hash = ?")
        .bind(await sha256(app.keys.sk_live))
        .run();
      expectError(await send(app.keys.sk_live), "invalid_key");
    });

    const code = guarded.publishable === "end-user" ? "invalid_user_token" : guarded.publishable;
    it(`returns ${code} for a publishable key without a user token`, async () => {
      const { app, send } = await world();
      expectError(await send(app.keys.pk_live), code);
    });

    it("shows no data to another application", async () => {
      const { send } = await world();
      expectResult(await send((await makeApp()).keys.sk_live), guarded.stranger);
    });

    it("shows no data to the other mode", async () => {
      const { app, send } = await world();
      expectResult(await send(app.keys.sk_test), guarded.otherMode ?? guarded.stranger);
    });

    it("accepts the application's own secret key", async () => {
      const { app, send } = await world();
      expect((await send(app.keys.sk_live)).status).toBe(200);
    });
  });
}

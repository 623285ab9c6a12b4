import { env } from "cloudflare:workers";
import { expect } from "vitest";
import type { CronPart } from "../../src/runtime.ts";
import { CREDITS, USAGE } from "./paths.ts";
import type { Answer, Clock } from "./world.ts";

/** The user of one test, and the ways to act for this user. */
export interface Scene {
  readonly userId: string;
  readonly clock: Clock;
  /** Sends a request with the application's secret key, unless another key is given. */
  readonly send: (
    method: string,
    path: string,
    body?: unknown,
    key?: string,
    headers?: Record<string, string>,
  ) => Promise<Answer>;
  /** The scene's application. */
  readonly appId: string;
  readonly publishableKey: string;
  /** Runs the cron. */
  readonly cron: (part: CronPart) => Promise<void>;
}

/** An operation of a caller, the admin or the cron, which is tested under every fault. */
export interface Operation {
  readonly name: string;
  /** Prepares the user, and returns a function that sends the operation's request. A test may call it again. */
  readonly prepare: (scene: Scene) => Promise<() => Promise<Answer>>;
  /** Whether a caller may safely send it again after a 503. */
  readonly isIdempotent: boolean;
  /** Whether the cron does it. Then the next run completes the work of a run that failed. */
  readonly hasNoCaller?: true;
  /** Whether it is a list. Then an element may fail although the response has the status 200. */
  readonly isList?: true;
  /** Whether it first settles due holds in a separate batch. After a fault only this batch may be stored, as if the cron had run. */
  readonly settlesFirst?: true;
  /** Whether it does not use an isolate's memory. */
  readonly hasNoMemory?: true;
  /** Whether the answer describes the effect of this request, so that a repeat differs. */
  readonly tellsWhatItDid?: true;
  /** The status when nothing fails. Default 200. */
  readonly status?: number;
}

/** Expects that a call succeeds, and returns its answer. */
export async function expectOk(call: Promise<Answer>): Promise<Answer> {
  const answer = await call;
  expect(answer.status, JSON.stringify(answer.body)).toBe(200);
  return answer;
}

/** Grants 400 tokens for `chat.*`, and 5 cents for all events. */
export const grantCredits = (scene: Scene): Promise<Answer> =>
  expectOk(scene.send("POST", `${CREDITS}/grant`, { userId: scene.userId, packId: "Two" }));

export const idOf = (scene: Scene, name: string): string => `${scene.userId}-${name}`;
export const reservationOf = (scene: Scene): string => `res_${scene.userId}`;
export const chat = (scene: Scene, tokens: number, cents: number) => ({
  userId: scene.userId,
  event: "chat.completed",
  quantities: { tokens, cents },
});

/** Sets prices of the scene's application: a token, and a hundredth of a cent, for each of `output`. */
export const setPrices = (scene: Scene): Promise<Answer> => {
  const rules = [
    { unit: "tokens", per: { output: 1 } },
    { unit: "cents", per: { output: 0.01 } },
  ];
  const path = `/api/v1/admin/apps/${scene.appId}/prices`;
  return expectOk(scene.send("PUT", path, { mode: "test", rules }, env.ADMIN_TOKEN));
};

export const reserveCredits = (scene: Scene, seconds = 60, more: object = {}): Promise<Answer> =>
  expectOk(
    scene.send("POST", `${USAGE}/reservations`, {
      ...chat(scene, 600, 6),
      reservationId: reservationOf(scene),
      expiresInSeconds: seconds,
      ...more,
    }),
  );

/** Creates a hold of a minute, of credits whose balances have expired since. */
export async function heldAndExpired(scene: Scene, more: object = {}): Promise<void> {
  const expiresAt = new Date(scene.clock.ms + 30_000).toISOString();
  await expectOk(scene.send("POST", `${CREDITS}/grant`, { userId: scene.userId, packId: "Two", expiresAt }));
  await reserveCredits(scene, 60, more);
  scene.clock.advance(30_000);
}

/** Creates a due hold, which the next write must return. Returns the grant's response. */
export async function dueHold(scene: Scene): Promise<Answer> {
  const granted = await grantCredits(scene);
  await reserveCredits(scene, 1);
  scene.clock.advance(2_000);
  return granted;
}

/** Creates a due reservation, which the next write must charge. */
export async function dueCharge(scene: Scene): Promise<void> {
  await grantCredits(scene);
  // The two grants must differ in time, so that they are spent in order.
  scene.clock.advance(1);
  await grantCredits(scene);
  await reserveCredits(scene, 1, { onExpiry: "charge" });
  scene.clock.advance(2_000);
}

export const makeEventRequest = (scene: Scene, tokens: number, more: object = {}) => {
  const body = { ...chat(scene, tokens, tokens / 100), eventId: idOf(scene, "event"), ...more };
  return () => scene.send("POST", `${USAGE}/events`, body);
};

export const makeSettleRequest = (scene: Scene, verb: "commit" | "release", tokens = 0, more: object = {}) => {
  const path = `${USAGE}/reservations/${reservationOf(scene)}/${verb}`;
  const body = { eventId: idOf(scene, "commit"), quantities: { tokens, cents: tokens / 100 }, ...more };
  return () => scene.send("POST", path, verb === "commit" ? body : {});
};

/** Returns a function that runs one part of the cron, for an operation that has no caller. */
export const makeCronRun = (scene: Scene, part: CronPart) => async (): Promise<Answer> => {
  await scene.cron(part);
  return { status: 200, headers: new Headers(), body: null };
};

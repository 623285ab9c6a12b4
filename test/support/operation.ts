import { expect } from "vitest";
import type { Answer, Clock } from "./world.ts";

/** A user of the test's own. */
export interface Scene {
  readonly userId: string;
  readonly clock: Clock;
  /** Sends a request with the application's secret key, unless told another. */
  readonly send: (method: string, path: string, body?: unknown, key?: string) => Promise<Answer>;
  /** Of the same application. */
  readonly appId: string;
  readonly publishableKey: string;
  /** Runs the cron. */
  readonly cron: () => Promise<void>;
}

/** Something that a caller, an administrator or the cron does, tried under every fault. */
export interface Operation {
  readonly name: string;
  /** Brings the user to the moment before, and answers what does the operation: once, or again. */
  readonly prepare: (scene: Scene) => Promise<() => Promise<Answer>>;
  /** Whether sending it again is safe: the caller's own remedy after a 503. */
  readonly isIdempotent: boolean;
  /** Nobody waits for the cron: what it could not do, its next run does. */
  readonly hasNoCaller?: true;
  /** A list's elements are answered each for itself: what failed may be told inside of a 200. */
  readonly isList?: true;
  /** What it answers when nothing fails; 200 unless said otherwise. */
  readonly status?: number;
}

export const CREDITS = "/api/v1/credits";
export const USAGE = "/api/v1/usage";

export async function done(answer: Promise<Answer>): Promise<Answer> {
  const settled = await answer;
  expect(settled.status, JSON.stringify(settled.body)).toBe(200);
  return settled;
}

/** 400 tokens for `chat.*` and 5 cents for anything. */
export const grant = (scene: Scene): Promise<Answer> =>
  done(scene.send("POST", `${CREDITS}/grant`, { userId: scene.userId, packId: "Two" }));

export const idOf = (scene: Scene, name: string): string => `${scene.userId}-${name}`;
export const reservationOf = (scene: Scene): string => `res_${scene.userId}`;
export const chat = (scene: Scene, tokens: number, cents: number) => ({
  userId: scene.userId,
  event: "chat.completed",
  quantities: { tokens, cents },
});

export const reserve = (scene: Scene, seconds = 60): Promise<Answer> =>
  done(
    scene.send("POST", `${USAGE}/reservations`, {
      ...chat(scene, 600, 6),
      reservationId: reservationOf(scene),
      expiresInSeconds: seconds,
    }),
  );

/** A hold that is due: the next write has to bring it back. Answers the grant. */
export async function dueHold(scene: Scene): Promise<Answer> {
  const granted = await grant(scene);
  await reserve(scene, 1);
  scene.clock.advance(2_000);
  return granted;
}

export const event = (scene: Scene, tokens: number, more: object = {}) => {
  const body = { ...chat(scene, tokens, tokens / 100), eventId: idOf(scene, "event"), ...more };
  return () => scene.send("POST", `${USAGE}/events`, body);
};

export const settle = (scene: Scene, verb: "commit" | "release", tokens = 0) => {
  const path = `${USAGE}/reservations/${reservationOf(scene)}/${verb}`;
  const body = { eventId: idOf(scene, "commit"), quantities: { tokens, cents: tokens / 100 } };
  return () => scene.send("POST", path, verb === "commit" ? body : {});
};

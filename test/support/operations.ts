import { env } from "cloudflare:workers";
import { expect } from "vitest";
import type { Answer, Clock } from "./world.ts";

/** A user of the test's own. */
export interface Scene {
  readonly userId: string;
  readonly clock: Clock;
  /** Sends a request with the application's secret key, unless told another. */
  readonly send: (method: string, path: string, body?: unknown, key?: string) => Promise<Answer>;
  /** Of the same application. */
  readonly publishableKey: string;
  /** Runs the cron. */
  readonly cron: () => Promise<void>;
}

/** Something that a caller, an operator or the cron does, tried under every fault. */
export interface Operation {
  readonly name: string;
  /** Brings the user to the moment before, and answers what does the operation: once, or again. */
  readonly prepare: (scene: Scene) => Promise<() => Promise<Answer>>;
  /** Whether sending it again is safe: the caller's own remedy after a 503. */
  readonly isIdempotent: boolean;
  /** Nobody waits for the cron: what it could not do, its next run does. */
  readonly hasNoCaller?: true;
  /** What it answers when nothing fails; 200 unless said otherwise. */
  readonly status?: number;
}

const CREDITS = "/api/v1/credits";
const USAGE = "/api/v1/usage";

async function done(answer: Promise<Answer>): Promise<Answer> {
  const settled = await answer;
  expect(settled.status, JSON.stringify(settled.body)).toBe(200);
  return settled;
}

/** 400 tokens for `chat.*` and 5 cents for anything. */
const grant = (scene: Scene): Promise<Answer> =>
  done(scene.send("POST", `${CREDITS}/grant`, { userId: scene.userId, packId: "Two" }));

const idOf = (scene: Scene, name: string): string => `${scene.userId}-${name}`;
const reservationOf = (scene: Scene): string => `res_${scene.userId}`;
const chat = (scene: Scene, tokens: number, cents: number) => ({
  userId: scene.userId,
  event: "chat.completed",
  quantities: { tokens, cents },
});

const reserve = (scene: Scene, seconds = 60): Promise<Answer> =>
  done(
    scene.send("POST", `${USAGE}/reservations`, {
      ...chat(scene, 600, 6),
      reservationId: reservationOf(scene),
      expiresInSeconds: seconds,
    }),
  );

/** A hold that is due: the next write has to bring it back. */
async function dueHold(scene: Scene): Promise<void> {
  await grant(scene);
  await reserve(scene, 1);
  scene.clock.advance(2_000);
}

const event = (scene: Scene, tokens: number, more: object = {}) => {
  const body = { ...chat(scene, tokens, tokens / 100), eventId: idOf(scene, "event"), ...more };
  return () => scene.send("POST", `${USAGE}/events`, body);
};

const settle = (scene: Scene, verb: "commit" | "release", tokens = 0) => {
  const path = `${USAGE}/reservations/${reservationOf(scene)}/${verb}`;
  const body = { eventId: idOf(scene, "commit"), quantities: { tokens, cents: tokens / 100 } };
  return () => scene.send("POST", path, verb === "commit" ? body : {});
};

const creditOperations: readonly Operation[] = [
  {
    name: "grant with an externalRef",
    isIdempotent: true,
    prepare: async (scene) => () =>
      scene.send("POST", `${CREDITS}/grant`, { userId: scene.userId, packId: "two", externalRef: "order-1" }),
  },
  {
    name: "grant without an externalRef",
    isIdempotent: false,
    prepare: async (scene) => () => scene.send("POST", `${CREDITS}/grant`, { userId: scene.userId, packId: "two" }),
  },
  {
    name: "revoke",
    isIdempotent: true,
    prepare: async (scene) => {
      const { balanceId } = (await grant(scene)).body;
      return () => scene.send("POST", `${CREDITS}/revoke`, { balanceId, reason: "refunded" });
    },
  },
  {
    name: "adjust",
    isIdempotent: false,
    prepare: async (scene) => {
      const { balanceId } = (await grant(scene)).body;
      const path = `/api/v1/admin/balances/${balanceId}/adjust`;
      return () => scene.send("POST", path, { delta: -2.5, note: "by hand" }, env.ADMIN_TOKEN);
    },
  },
  {
    name: "list",
    isIdempotent: true,
    prepare: async (scene) => {
      await grant(scene);
      return () => scene.send("GET", `${CREDITS}?userId=${scene.userId}&event=chat.*`);
    },
  },
  {
    name: "history",
    isIdempotent: true,
    prepare: async (scene) => {
      await grant(scene);
      return () => scene.send("GET", `${CREDITS}/history?userId=${scene.userId}`);
    },
  },
  {
    name: "history of one balance",
    isIdempotent: true,
    prepare: async (scene) => {
      const { balanceId } = (await grant(scene)).body;
      return () => scene.send("GET", `${CREDITS}/history?userId=${scene.userId}&balanceId=${balanceId}`);
    },
  },
  {
    name: "plan",
    isIdempotent: true,
    prepare: async (scene) => {
      await grant(scene);
      return () => scene.send("POST", `${CREDITS}/plan`, chat(scene, 600, 6));
    },
  },
];

const usageOperations: readonly Operation[] = [
  {
    name: "usage event",
    isIdempotent: true,
    prepare: async (scene) => {
      await grant(scene);
      return event(scene, 500);
    },
  },
  {
    name: "usage event that is only partly covered",
    isIdempotent: true,
    prepare: async (scene) => {
      await grant(scene);
      return event(scene, 5_000, { onShortage: "partial" });
    },
  },
  {
    name: "usage event that brings a due hold back",
    isIdempotent: true,
    prepare: async (scene) => {
      await dueHold(scene);
      return event(scene, 500);
    },
  },
  {
    name: "usage event that is refused and brings a due hold back",
    isIdempotent: true,
    status: 402,
    prepare: async (scene) => {
      await dueHold(scene);
      return event(scene, 50_000);
    },
  },
  {
    name: "reserve",
    isIdempotent: true,
    prepare: async (scene) => {
      await grant(scene);
      const body = { ...chat(scene, 600, 6), reservationId: reservationOf(scene) };
      return () => scene.send("POST", `${USAGE}/reservations`, body);
    },
  },
  {
    name: "reserve under an id of Purser's",
    isIdempotent: false,
    prepare: async (scene) => {
      await grant(scene);
      return () => scene.send("POST", `${USAGE}/reservations`, chat(scene, 600, 6));
    },
  },
  {
    name: "commit of less than was held",
    isIdempotent: true,
    prepare: async (scene) => {
      await grant(scene);
      await reserve(scene);
      return settle(scene, "commit", 200);
    },
  },
  {
    name: "commit of more than was held",
    isIdempotent: true,
    prepare: async (scene) => {
      await grant(scene);
      await reserve(scene);
      return settle(scene, "commit", 700);
    },
  },
  {
    name: "commit after the hold ran out",
    isIdempotent: true,
    prepare: async (scene) => {
      await dueHold(scene);
      return settle(scene, "commit", 200);
    },
  },
  {
    name: "release",
    isIdempotent: true,
    prepare: async (scene) => {
      await grant(scene);
      await reserve(scene);
      return settle(scene, "release");
    },
  },
  {
    name: "cron",
    isIdempotent: true,
    hasNoCaller: true,
    prepare: async (scene) => {
      scene.clock.advance(2_000);
      await scene.cron(); // for what other tests left
      await dueHold(scene);
      return async () => {
        await scene.cron();
        return { status: 200, headers: new Headers(), body: null };
      };
    },
  },
  {
    name: "totals",
    isIdempotent: true,
    prepare: async (scene) => {
      await grant(scene);
      await done(event(scene, 500)());
      return () => scene.send("GET", `${USAGE}?userId=${scene.userId}`);
    },
  },
];

const personOperations: readonly Operation[] = [
  {
    name: "export-person",
    isIdempotent: false,
    prepare: async (scene) => () => scene.send("POST", "/api/v1/export-person", { distinctId: scene.userId }),
  },
  {
    name: "consent",
    isIdempotent: false,
    prepare: async (scene) => () =>
      scene.send("POST", "/api/v1/consent", { distinctId: scene.userId, purpose: "ads", decision: "granted" }),
  },
  {
    name: "capture of an event and an identification",
    isIdempotent: true,
    prepare: async (scene) => {
      const { userId: distinct_id } = scene;
      const [seen, identified] = [crypto.randomUUID(), crypto.randomUUID()];
      const timestamp = new Date(scene.clock.ms).toISOString();
      const batch = [
        { uuid: seen, event: "seen", distinct_id, timestamp, properties: {} },
        {
          uuid: identified,
          event: "$identify",
          distinct_id,
          timestamp,
          properties: { $set: { plan: "pro" }, $anon_distinct_id: idOf(scene, "device") },
        },
      ];
      return () => scene.send("POST", "/batch/", { api_key: scene.publishableKey, batch });
    },
  },
];

export const operations: readonly Operation[] = [...creditOperations, ...usageOperations, ...personOperations];

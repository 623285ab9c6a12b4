import { env } from "cloudflare:workers";
import { periodsPart } from "../../src/books/recurring/grant-due.ts";
import { DAY_MS } from "../../src/lib/time.ts";
import {
  expectOk,
  grantCredits,
  idOf,
  makeCronRun,
  makeEventRequest,
  type Operation,
  type Scene,
} from "./operation.ts";
import { CREDITS, RECURRING, USAGE } from "./paths.ts";
import type { Answer } from "./world.ts";

const recurringOf = (scene: Scene): string => `rec_${scene.userId}`;

const recur = (scene: Scene, more: object = {}): Promise<Answer> => {
  const body = {
    recurringId: recurringOf(scene),
    userId: scene.userId,
    packId: "Two",
    every: "day",
    timeZone: "America/New_York",
    ...more,
  };
  return scene.send("POST", RECURRING, body);
};

/** Creates a due period, which the next write must grant. */
async function duePeriod(scene: Scene, more: object = {}): Promise<void> {
  await expectOk(recur(scene, more));
  scene.clock.advance(DAY_MS);
}

const cancel = (scene: Scene, body: object) => () =>
  scene.send("POST", `${RECURRING}/${recurringOf(scene)}/cancel`, body);

/** Creates a pack for the scene, which may archive it. */
async function ownPack(scene: Scene): Promise<string> {
  const body = { packName: scene.userId, items: [{ amount: 7, unit: "tokens" }] };
  const answer = await expectOk(scene.send("POST", `/api/v1/admin/apps/${scene.appId}/packs`, body, env.ADMIN_TOKEN));
  return answer.body.packId;
}

const LIMIT = "Limited tokens";

/** The limit of the scenes' application: 700 tokens a day of events that no other operation sends. */
async function makeLimit(scene: Scene): Promise<string> {
  const path = `/api/v1/admin/apps/${scene.appId}/usage-limits`;
  const matches = [{ event: "chat.limited" }];
  const window = { every: "day", timeZone: "Asia/Kathmandu" };
  const body = { mode: "test", name: LIMIT, matches, unit: "tokens", amount: 700, ...window };
  return (await expectOk(scene.send("POST", path, body, env.ADMIN_TOKEN))).body.limitId;
}

const limitIds = new Map<string, Promise<string>>();
/** Returns the id of that limit, which the application's first scene creates. */
function limitOf(scene: Scene): Promise<string> {
  const limitId = limitIds.get(scene.appId) ?? makeLimit(scene);
  limitIds.set(scene.appId, limitId);
  return limitId;
}

const limited = (scene: Scene, tokens: number, more: object = {}) =>
  makeEventRequest(scene, tokens, { event: "chat.limited", ...more });

export const periodOperations: readonly Operation[] = [
  {
    name: "recurring grant that grants its first period",
    isIdempotent: true,
    prepare: async (scene) => () => recur(scene, { every: "month" }),
  },
  {
    name: "recurring grant that begins later",
    isIdempotent: true,
    prepare: async (scene) => {
      const startsAt = new Date(scene.clock.ms + DAY_MS).toISOString();
      return () => recur(scene, { startsAt, endsAt: new Date(scene.clock.ms + 9 * DAY_MS).toISOString() });
    },
  },
  {
    name: "usage event that grants a due period",
    isIdempotent: true,
    prepare: async (scene) => {
      await duePeriod(scene);
      return makeEventRequest(scene, 300);
    },
  },
  {
    name: "usage event that is refused and grants a due period",
    isIdempotent: true,
    status: 402,
    prepare: async (scene) => {
      await duePeriod(scene);
      return makeEventRequest(scene, 50_000);
    },
  },
  {
    name: "list that shows a due period",
    isIdempotent: true,
    prepare: async (scene) => {
      await duePeriod(scene);
      return () => scene.send("GET", `${CREDITS}?userId=${scene.userId}`);
    },
  },
  {
    name: "cancellation of a recurring grant at the period's end",
    isIdempotent: true,
    prepare: async (scene) => {
      await expectOk(recur(scene));
      return cancel(scene, {});
    },
  },
  {
    name: "cancellation of a recurring grant now, which grants a due period and revokes it",
    isIdempotent: true,
    prepare: async (scene) => {
      await duePeriod(scene, { rolloverPeriods: 1 });
      return cancel(scene, { at: "now", reason: "asked for" });
    },
  },
  {
    name: "refund of a due period, which it grants",
    isIdempotent: true,
    prepare: async (scene) => {
      await duePeriod(scene);
      const externalRef = `recurring:${recurringOf(scene)}:2`;
      const body = { userId: scene.userId, externalRef, refundRef: idOf(scene, "refund"), share: { part: 1, of: 3 } };
      return () => scene.send("POST", `${CREDITS}/refund`, body);
    },
  },
  {
    name: "cron that grants a due period",
    isIdempotent: true,
    hasNoCaller: true,
    prepare: async (scene) => {
      await duePeriod(scene);
      return makeCronRun(scene, periodsPart);
    },
  },
  {
    name: "resumption of a recurring grant that an archived pack suspended",
    isIdempotent: false,
    prepare: async (scene) => {
      const packId = await ownPack(scene);
      const path = `/api/v1/admin/apps/${scene.appId}/packs/${packId}`;
      await expectOk(recur(scene, { packId }));
      await expectOk(scene.send("POST", `${path}/archive`, {}, env.ADMIN_TOKEN));
      scene.clock.advance(DAY_MS);
      await grantCredits(scene);
      await expectOk(scene.send("POST", `${path}/restore`, {}, env.ADMIN_TOKEN));
      return () => scene.send("POST", `${RECURRING}/${recurringOf(scene)}/resume`, {});
    },
  },
  {
    name: "usage event that a limit counts",
    isIdempotent: true,
    prepare: async (scene) => {
      await limitOf(scene);
      await grantCredits(scene);
      return limited(scene, 300);
    },
  },
  {
    name: "usage event that a limit refuses",
    isIdempotent: true,
    status: 429,
    prepare: async (scene) => {
      await limitOf(scene);
      await grantCredits(scene);
      await expectOk(limited(scene, 300, { eventId: idOf(scene, "before") })());
      return limited(scene, 401);
    },
  },
  {
    name: "reservation that a limit counts",
    isIdempotent: true,
    prepare: async (scene) => {
      await limitOf(scene);
      await grantCredits(scene);
      const body = { userId: scene.userId, event: "chat.limited", quantities: { tokens: 300, cents: 3 } };
      return () => scene.send("POST", `${USAGE}/reservations`, { ...body, reservationId: `res_${scene.userId}` });
    },
  },
  {
    name: "change of a user's own amount of a limit",
    isIdempotent: true,
    prepare: async (scene) => {
      const limitId = await limitOf(scene);
      await grantCredits(scene);
      const body = { userId: scene.userId, amount: 5 };
      return () => scene.send("PUT", `${USAGE}/limits/${limitId}/amount`, body);
    },
  },
];

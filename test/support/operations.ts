import { env } from "cloudflare:workers";
import { chat, dueHold, expectOk, grantCredits, idOf, type Operation, reservationOf, type Scene } from "./operation.ts";
import { adminOperations } from "./operations-admin.ts";
import { paymentOperations } from "./operations-payments.ts";
import { periodOperations } from "./operations-periods.ts";
import { usageOperations } from "./operations-usage.ts";
import { CREDITS, USAGE } from "./paths.ts";
import type { Answer } from "./world.ts";

const grantUnder = (scene: Scene, externalRef: string): Promise<Answer> =>
  expectOk(scene.send("POST", `${CREDITS}/grant`, { userId: scene.userId, packId: "Two", externalRef }));

const refundBody = (scene: Scene, more: object) => ({
  ...{ userId: scene.userId, externalRef: "order-1", refundRef: idOf(scene, "refund"), reason: "refunded" },
  ...more,
});

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
      const { balanceId } = (await grantCredits(scene)).body;
      return () => scene.send("POST", `${CREDITS}/revoke`, { balanceId, reason: "refunded" });
    },
  },
  {
    name: "refund",
    isIdempotent: true,
    prepare: async (scene) => {
      await grantUnder(scene, "order-1");
      return () => scene.send("POST", `${CREDITS}/refund`, refundBody(scene, { share: { part: 1, of: 3 } }));
    },
  },
  {
    name: "refund of all that is left, which returns a due hold",
    isIdempotent: true,
    prepare: async (scene) => {
      await grantUnder(scene, "order-1");
      await expectOk(
        scene.send("POST", `${CREDITS}/refund`, refundBody(scene, { share: { part: 1, of: 3 }, refundRef: "first" })),
      );
      const hold = { ...chat(scene, 100, 1), reservationId: reservationOf(scene), expiresInSeconds: 1 };
      await expectOk(scene.send("POST", `${USAGE}/reservations`, hold));
      scene.clock.advance(2_000);
      return () => scene.send("POST", `${CREDITS}/refund`, refundBody(scene, {}));
    },
  },
  {
    name: "adjustment without an id",
    isIdempotent: false,
    prepare: async (scene) => {
      const { balanceId } = (await grantCredits(scene)).body;
      const path = `/api/v1/admin/balances/${balanceId}/adjust`;
      return () => scene.send("POST", path, { delta: -2.5, note: "by hand" }, env.ADMIN_TOKEN);
    },
  },
  {
    name: "adjustment with an id",
    isIdempotent: true,
    prepare: async (scene) => {
      const { balanceId } = (await grantCredits(scene)).body;
      const path = `/api/v1/admin/balances/${balanceId}/adjust`;
      const body = { delta: 2.5, note: "by hand", adjustmentId: idOf(scene, "adjustment") };
      return () => scene.send("POST", path, body, env.ADMIN_TOKEN);
    },
  },
  {
    name: "adjustment that returns a due hold",
    isIdempotent: true,
    prepare: async (scene) => {
      const { balanceId } = (await dueHold(scene)).body;
      const path = `/api/v1/admin/balances/${balanceId}/adjust`;
      const body = { delta: -400, note: "all that was returned", adjustmentId: idOf(scene, "adjustment") };
      return () => scene.send("POST", path, body, env.ADMIN_TOKEN);
    },
  },
  {
    name: "revoke that returns a due hold",
    isIdempotent: true,
    prepare: async (scene) => {
      const { balanceId } = (await dueHold(scene)).body;
      return () => scene.send("POST", `${CREDITS}/revoke`, { balanceId });
    },
  },
  {
    name: "list of balances",
    isIdempotent: true,
    prepare: async (scene) => {
      await grantCredits(scene);
      return () => scene.send("GET", `${CREDITS}?userId=${scene.userId}&event=chat.*`);
    },
  },
  {
    name: "list of balances as of a moment",
    isIdempotent: true,
    prepare: async (scene) => {
      await grantCredits(scene);
      const asOf = new Date(scene.clock.ms).toISOString();
      return () => scene.send("GET", `${CREDITS}?userId=${scene.userId}&event=chat.*&asOf=${asOf}`);
    },
  },
  {
    name: "verification of a user",
    isIdempotent: true,
    prepare: async (scene) => {
      await grantCredits(scene);
      return () => scene.send("GET", `${CREDITS}/verify?userId=${scene.userId}`);
    },
  },
  {
    name: "history of a user",
    isIdempotent: true,
    prepare: async (scene) => {
      await grantCredits(scene);
      return () => scene.send("GET", `${CREDITS}/history?userId=${scene.userId}`);
    },
  },
  {
    name: "history of one balance",
    isIdempotent: true,
    prepare: async (scene) => {
      const { balanceId } = (await grantCredits(scene)).body;
      return () => scene.send("GET", `${CREDITS}/history?userId=${scene.userId}&balanceId=${balanceId}`);
    },
  },
  {
    name: "plan",
    isIdempotent: true,
    prepare: async (scene) => {
      await grantCredits(scene);
      return () => scene.send("POST", `${CREDITS}/plan`, chat(scene, 600, 6));
    },
  },
];

const personOperations: readonly Operation[] = [
  {
    name: "creation of an export link",
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
    name: "capture of an event and an $identify",
    isIdempotent: true,
    prepare: async (scene) => {
      const { userId: distinct_id } = scene;
      const [seenUuid, identifyUuid, device] = [crypto.randomUUID(), crypto.randomUUID(), crypto.randomUUID()];
      const timestamp = new Date(scene.clock.ms).toISOString();
      const batch = [
        { uuid: seenUuid, event: "seen", distinct_id, timestamp, properties: {} },
        {
          uuid: identifyUuid,
          event: "$identify",
          distinct_id,
          timestamp,
          properties: { $set: { plan: "pro" }, $anon_distinct_id: device },
        },
      ];
      return () => scene.send("POST", "/batch/", { api_key: scene.publishableKey, batch });
    },
  },
];

export const operations: readonly Operation[] = [
  ...creditOperations,
  ...usageOperations,
  ...periodOperations,
  ...personOperations,
  ...adminOperations,
  ...paymentOperations,
];

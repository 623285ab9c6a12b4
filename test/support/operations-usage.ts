import { holdsPart } from "../../src/books/usage/expire.ts";
import { daySumsPart } from "../../src/books/usage/sum-days.ts";
import {
  chat,
  dueCharge,
  dueHold,
  expectOk,
  grantCredits,
  heldAndExpired,
  idOf,
  makeCronRun,
  makeEventRequest,
  makeSettleRequest,
  type Operation,
  reservationOf,
  reserveCredits,
  setPrices,
} from "./operation.ts";
import { CREDITS, USAGE } from "./paths.ts";

export const usageOperations: readonly Operation[] = [
  {
    name: "usage event",
    isIdempotent: true,
    prepare: async (scene) => {
      await grantCredits(scene);
      return makeEventRequest(scene, 500);
    },
  },
  {
    name: "usage event that is only partly covered, with large properties",
    isIdempotent: true,
    prepare: async (scene) => {
      await grantCredits(scene);
      return makeEventRequest(scene, 5_000, { onShortage: "partial", properties: { text: "x".repeat(1_100) } });
    },
  },
  {
    name: "usage event of a payer's first member",
    isIdempotent: true,
    prepare: async (scene) => {
      await grantCredits(scene);
      return makeEventRequest(scene, 500, { memberId: `${scene.userId} mia` });
    },
  },
  {
    name: "reservation of a member of two payers",
    isIdempotent: true,
    prepare: async (scene) => {
      await grantCredits(scene);
      const memberId = `${scene.userId} mia`;
      const other = { ...chat(scene, 100, 1), userId: `${scene.userId} too`, memberId, onShortage: "partial" };
      await expectOk(scene.send("POST", `${USAGE}/events`, { ...other, eventId: idOf(scene, "other") }));
      const body = { ...chat(scene, 600, 6), memberId, reservationId: reservationOf(scene) };
      return () => scene.send("POST", `${USAGE}/reservations`, body);
    },
  },
  {
    name: "usage event that returns a due hold",
    isIdempotent: true,
    prepare: async (scene) => {
      await dueHold(scene);
      return makeEventRequest(scene, 500);
    },
  },
  {
    name: "grant that returns a due hold",
    isIdempotent: true,
    prepare: async (scene) => {
      await dueHold(scene);
      const body = { userId: scene.userId, packId: "Two", externalRef: "order-2" };
      return () => scene.send("POST", `${CREDITS}/grant`, body);
    },
  },
  {
    name: "usage event that is refused and returns a due hold",
    isIdempotent: true,
    status: 402,
    prepare: async (scene) => {
      await dueHold(scene);
      return makeEventRequest(scene, 50_000);
    },
  },
  {
    name: "list of a malformed and a valid usage event",
    isIdempotent: true,
    isList: true,
    prepare: async (scene) => {
      await grantCredits(scene);
      const valid = { ...chat(scene, 500, 5), eventId: idOf(scene, "event") };
      return () => scene.send("POST", `${USAGE}/events`, [{ ...valid, eventId: "" }, valid]);
    },
  },
  {
    name: "list of usage events of one user, one of them twice and one refused, that returns a due hold",
    isIdempotent: true,
    isList: true,
    prepare: async (scene) => {
      await dueHold(scene);
      const eventOf = (name: string, tokens: number) => ({
        ...chat(scene, tokens, tokens / 100),
        eventId: idOf(scene, name),
      });
      // A rejected event is repeated together with later events, so it comes last.
      const list = [eventOf("a", 300), eventOf("b", 200), eventOf("a", 300), eventOf("c", 50_000)];
      return () => scene.send("POST", `${USAGE}/events`, list);
    },
  },
  {
    name: "list of usage events of several users",
    isIdempotent: true,
    isList: true,
    prepare: async (scene) => {
      await grantCredits(scene);
      const eventOf = (name: string) => ({ ...chat(scene, 300, 3), eventId: idOf(scene, name) });
      const other = { ...eventOf("c"), userId: `${scene.userId} too`, onShortage: "partial" };
      const list = [eventOf("a"), other, eventOf("b")];
      return () => scene.send("POST", `${USAGE}/events`, list);
    },
  },
  {
    name: "reservation with an id",
    isIdempotent: true,
    prepare: async (scene) => {
      await grantCredits(scene);
      const body = { ...chat(scene, 600, 6), reservationId: reservationOf(scene) };
      return () => scene.send("POST", `${USAGE}/reservations`, body);
    },
  },
  {
    name: "reservation without an id",
    isIdempotent: false,
    prepare: async (scene) => {
      await grantCredits(scene);
      return () => scene.send("POST", `${USAGE}/reservations`, chat(scene, 600, 6));
    },
  },
  {
    name: "commit of less than was held",
    isIdempotent: true,
    prepare: async (scene) => {
      await grantCredits(scene);
      await reserveCredits(scene);
      return makeSettleRequest(scene, "commit", 200);
    },
  },
  {
    name: "commit of more than was held",
    isIdempotent: true,
    prepare: async (scene) => {
      await grantCredits(scene);
      await reserveCredits(scene);
      return makeSettleRequest(scene, "commit", 700);
    },
  },
  {
    name: "commit after the hold expired",
    isIdempotent: true,
    prepare: async (scene) => {
      await dueHold(scene);
      return makeSettleRequest(scene, "commit", 200);
    },
  },
  {
    name: "commit of credits whose balance has expired since they were held",
    isIdempotent: true,
    prepare: async (scene) => {
      await heldAndExpired(scene);
      return makeSettleRequest(scene, "commit", 500);
    },
  },
  {
    name: "commit of more than is held of an expired balance",
    isIdempotent: true,
    status: 402,
    prepare: async (scene) => {
      await heldAndExpired(scene);
      return makeSettleRequest(scene, "commit", 50_000);
    },
  },
  {
    name: "commit with another model than the reservation's",
    isIdempotent: true,
    prepare: async (scene) => {
      await grantCredits(scene);
      await reserveCredits(scene, 60, { model: "small" });
      return makeSettleRequest(scene, "commit", 200, { model: "large" });
    },
  },
  {
    name: "usage event with meters",
    isIdempotent: true,
    prepare: async (scene) => {
      await Promise.all([grantCredits(scene), setPrices(scene)]);
      const request = { userId: scene.userId, event: "chat.completed", meters: { output: 500 } };
      return () => scene.send("POST", `${USAGE}/events`, { ...request, eventId: idOf(scene, "event") });
    },
  },
  {
    name: "reservation with meters",
    isIdempotent: true,
    prepare: async (scene) => {
      await Promise.all([grantCredits(scene), setPrices(scene)]);
      const body = { userId: scene.userId, event: "chat.completed", meters: { output: 600 } };
      return () => scene.send("POST", `${USAGE}/reservations`, { ...body, reservationId: reservationOf(scene) });
    },
  },
  {
    name: "commit with meters",
    isIdempotent: true,
    prepare: async (scene) => {
      await Promise.all([grantCredits(scene), setPrices(scene)]);
      await reserveCredits(scene);
      return makeSettleRequest(scene, "commit", 0, { quantities: undefined, meters: { output: 200 } });
    },
  },
  {
    name: "free usage event, of quantities that are all 0",
    isIdempotent: true,
    prepare: async (scene) => {
      await grantCredits(scene);
      return makeEventRequest(scene, 0);
    },
  },
  {
    name: "usage event with a quantity that is rounded",
    isIdempotent: true,
    prepare: async (scene) => {
      await grantCredits(scene);
      return makeEventRequest(scene, 100 + 1 / 3);
    },
  },
  {
    name: "usage event that charges a due reservation whose balance expired before its end",
    isIdempotent: true,
    settlesFirst: true,
    prepare: async (scene) => {
      await heldAndExpired(scene, { onExpiry: "charge" });
      await grantCredits(scene);
      scene.clock.advance(60_000);
      return makeEventRequest(scene, 100);
    },
  },
  {
    name: "release",
    isIdempotent: true,
    prepare: async (scene) => {
      await grantCredits(scene);
      await reserveCredits(scene);
      return makeSettleRequest(scene, "release");
    },
  },
  {
    name: "release that returns another hold, which is due",
    isIdempotent: true,
    prepare: async (scene) => {
      await grantCredits(scene);
      await reserveCredits(scene, 1);
      const other = { ...chat(scene, 100, 1), reservationId: `${reservationOf(scene)}_other` };
      await expectOk(scene.send("POST", `${USAGE}/reservations`, other));
      scene.clock.advance(2_000);
      return () => scene.send("POST", `${USAGE}/reservations/${other.reservationId}/release`, {});
    },
  },
  {
    name: "usage event that charges a due reservation",
    isIdempotent: true,
    settlesFirst: true,
    prepare: async (scene) => {
      await dueCharge(scene);
      return makeEventRequest(scene, 100);
    },
  },
  {
    name: "usage event that is refused and charges a due reservation",
    isIdempotent: true,
    status: 402,
    prepare: async (scene) => {
      await dueCharge(scene);
      return makeEventRequest(scene, 50_000);
    },
  },
  {
    name: "commit that comes late and causes the charge",
    isIdempotent: true,
    status: 409,
    prepare: async (scene) => {
      await dueCharge(scene);
      return makeSettleRequest(scene, "commit", 200);
    },
  },
  {
    name: "cron that charges a due reservation",
    isIdempotent: true,
    hasNoCaller: true,
    hasNoMemory: true,
    prepare: async (scene) => {
      // Settles the holds that other tests left.
      scene.clock.advance(2_000);
      await scene.cron(holdsPart);
      await dueCharge(scene);
      return makeCronRun(scene, holdsPart);
    },
  },
  {
    name: "extension",
    isIdempotent: true,
    prepare: async (scene) => {
      await grantCredits(scene);
      await reserveCredits(scene);
      const path = `${USAGE}/reservations/${reservationOf(scene)}/extend`;
      return () => scene.send("POST", path, { expiresInSeconds: 600 });
    },
  },
  {
    name: "extension of a due reservation",
    isIdempotent: true,
    status: 409,
    prepare: async (scene) => {
      await dueHold(scene);
      const path = `${USAGE}/reservations/${reservationOf(scene)}/extend`;
      return () => scene.send("POST", path, { expiresInSeconds: 600 });
    },
  },
  {
    name: "list of reservations",
    isIdempotent: true,
    prepare: async (scene) => {
      await grantCredits(scene);
      await reserveCredits(scene);
      return () => scene.send("GET", `${USAGE}/reservations?userId=${scene.userId}`);
    },
  },
  {
    name: "cron that returns a due hold",
    isIdempotent: true,
    hasNoCaller: true,
    hasNoMemory: true,
    prepare: async (scene) => {
      // Settles the holds that other tests left.
      scene.clock.advance(2_000);
      await scene.cron(holdsPart);
      await dueHold(scene);
      return makeCronRun(scene, holdsPart);
    },
  },
  {
    name: "usage totals",
    isIdempotent: true,
    prepare: async (scene) => {
      await grantCredits(scene);
      await expectOk(makeEventRequest(scene, 500)());
      return () => scene.send("GET", `${USAGE}?userId=${scene.userId}`);
    },
  },
  {
    name: "cron that sums usage by days",
    isIdempotent: true,
    hasNoMemory: true,
    hasNoCaller: true,
    prepare: async (scene) => {
      await scene.cron(daySumsPart);
      await grantCredits(scene);
      await expectOk(makeEventRequest(scene, 500)());
      return makeCronRun(scene, daySumsPart);
    },
  },
];

import * as v7 from "ai";
import * as test7 from "ai/test";
import * as v6 from "ai-v6";
import * as test6 from "ai-v6/test";
import { Purser } from "purser-client";
import { PurserAdmin } from "purser-client/admin";
import { ADMIN_TOKEN, sharedServer } from "./server.ts";

/** Both versions of the SDK. The tests use what they have in common, so version 6 has the types of version 7 here. */
export const SDKS = [
  ["version 7", v7, test7.MockLanguageModelV4],
  ["version 6", v6 as unknown as typeof v7, test6.MockLanguageModelV3 as unknown as typeof test7.MockLanguageModelV4],
] as const;

export const GRANTED = 1_000_000;
const PER = { input: 1, output: 10, cacheRead: 0.1, cacheWrite: 1.25, cacheWrite1h: 2 };

/** An application whose price list has two models, and users with credits. */
export async function aiWorld() {
  const { url, db, makeApp, cron } = await sharedServer();
  const { appId, keys } = await makeApp();
  const admin = new PurserAdmin({ url, key: ADMIN_TOKEN });
  await admin.createPack({ appId, packName: "Tokens", items: [], unit: "tokens" });
  await admin.setPrices({
    appId,
    mode: "live",
    rules: [
      { event: "chat.*", model: "small*", unit: "tokens", per: PER },
      { event: "chat.*", model: "large*", unit: "tokens", per: { ...PER, input: 3, output: 30 } },
    ],
  });
  let users = 0;
  const purser = new Purser({ url, key: keys.sk_live });
  return {
    admin,
    appId,
    cron,
    db,
    url,
    key: keys.sk_live,
    purser,
    async user(quantity = GRANTED): Promise<string> {
      users += 1;
      const userId = `user_${users}`;
      await purser.grantCredits({ userId, packId: "tokens", quantity, externalRef: "start" });
      return userId;
    },
    /** The events that a user was charged for, the tokens that are left, and the reservations that are open. */
    async books(userId: string) {
      const [{ events }, { credits }, { reservations }] = await Promise.all([
        purser.listUsageEvents({ userId }),
        purser.listBalances({ userId }),
        purser.listReservations({ userId, status: "open" }),
      ]);
      return {
        events: events
          .map(({ eventId, model, meters, quantities }) => ({ eventId, model, meters, quantities }))
          .reverse(),
        spent: GRANTED - (credits[0]?.remaining ?? 0),
        open: reservations.length,
      };
    },
  };
}

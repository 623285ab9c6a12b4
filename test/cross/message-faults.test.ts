import { env } from "cloudflare:workers";
import { beforeEach, expect, it, vi } from "vitest";
import { FAULTS, faultyD1 } from "../support/faulty-d1.ts";
import { makeEndpoint, storedMessages } from "../support/webhooks.ts";
import { type Answer, Clock, makeApp, makeClient, makePack } from "../support/world.ts";

// The pauses between attempts are not what is tested.
beforeEach(() => {
  vi.spyOn(scheduler, "wait").mockResolvedValue();
});

type Post = (path: string, body: object) => Promise<Answer>;

/** What is done to a user who has a pack, and the type that tells it. Each may be sent again. */
const effects: readonly [string, (post: Post) => Promise<Answer>][] = [
  ["credits.granted", (post) => post("/credits/grant", { userId: "u", packId: "Pack", externalRef: "second" })],
  [
    "usage.recorded",
    (post) => post("/usage/events", { userId: "u", eventId: "e", event: "x", quantities: { count: 0, cents: 1 } }),
  ],
  [
    "credits.refunded",
    (post) => post("/credits/refund", { userId: "u", externalRef: "first", refundRef: "r", share: { part: 1, of: 2 } }),
  ],
];

it.each(effects)(
  "%s is written once with its effect, whichever trip fails before, amid or after it",
  async (type, act) => {
    const faulty = faultyD1(env.DB);
    let failed = 0;
    for (const fault of FAULTS) {
      for (let at = 1; at <= 2; at++) {
        faulty.plan(null);
        const app = await makeApp();
        await makePack(app.appId, "Pack", [{ amountSteps: 10_000_000, unit: "cents" }]);
        const call = makeClient(new Clock(), { DB: faulty.d1 });
        const post: Post = (path, body) => call("POST", `/api/v1${path}`, { key: app.keys.sk_live, body });
        await post("/credits/grant", { userId: "u", packId: "Pack", externalRef: "first" });
        await makeEndpoint(app.environments.live, [type]);
        const told = async () => (await storedMessages(app.environments.live)).map((one) => [one.type, one.deliveries]);
        const entries = async () =>
          (await env.DB.prepare(
            "SELECT count(*) AS n FROM accounts AS a JOIN credit_ledger AS l ON l.account_id = a.id WHERE a.environment_id = ?",
          )
            .bind(app.environments.live.id)
            .first<number>("n")) ?? 0;
        const before = await entries();
        faulty.plan({ fault, at, persists: at === 2 });
        const first = await act(post);
        faulty.plan(null);
        if (first.status !== 200) failed++;
        // What failed for the caller may have landed, and only then is it told.
        const hasLanded = (await entries()) > before;
        expect((await told()).length, `${fault} at ${at}`).toBe(hasLanded ? 1 : 0);
        if (first.status === 200) expect(hasLanded).toBe(true);
        expect((await act(post)).status).toBe(200);
        expect(await told(), `${fault} at ${at}`).toEqual([[type, 1]]);
        expect((await act(post)).status).toBe(200);
        expect(await told()).toEqual([[type, 1]]);
      }
    }
    expect(failed).toBeGreaterThan(2);
  },
);

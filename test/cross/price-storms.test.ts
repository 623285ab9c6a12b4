import { env } from "cloudflare:workers";
import { afterAll, expect, it, vi } from "vitest";
import { expectLedgerInvariants } from "../support/invariants.ts";
import { makePricedSpender } from "../support/metered.ts";
import { createRandom } from "../support/random.ts";
import { FIXED_SEED, soakCount } from "../support/soak.ts";
import { changeReservation, runHoldsPart } from "../support/spender.ts";

afterAll(expectLedgerInvariants);

const STORMS = soakCount(1, 20);
const ROUNDS = 6;

/** Version n charges n thousandths of a cent for each of input and of output, and costs n millionths. */
const rulesOf = (n: number) => [{ unit: "cents", per: { input: n / 1_000, output: n / 1_000 } }];
const costsOf = (n: number) => [{ per: { input: n / 1_000_000, output: n / 1_000_000 } }];

it(`prices every event wholly by one version, a hold's by the hold's, and a replay by none, while versions are set (PROOF_SEED=${FIXED_SEED})`, {
  timeout: STORMS * 60_000,
}, async () => {
  vi.spyOn(scheduler, "wait").mockResolvedValue();
  const random = createRandom(FIXED_SEED);
  for (let storm = 0; storm < STORMS; storm++) {
    const w = await makePricedSpender([{ amountMinor: 8_000_000_000_000_000, unit: "cents" }]);
    const environmentId = w.app.environments.live.id;
    const isolates = Array.from({ length: 3 }, () => w.inNewIsolate());
    const answered = new Map<string, unknown>();
    const pinned = new Map<string, number>();
    let versions = 0;
    const setVersion = async (laterChance = 0.3) => {
      const n = ++versions;
      const isLater = random.chance(laterChance);
      const effectiveAt = isLater ? { effectiveAt: new Date(w.clock.ms + random.integer(1, 2_000)).toISOString() } : {};
      // The note has the version's price, because racing versions get their numbers in another order.
      await w.setPrices(rulesOf(n), { costs: costsOf(n), note: `${n}`, ...effectiveAt });
    };
    // An event before any version is in force has no price.
    await setVersion(0);
    const usage = () => ({ event: "chat", meters: { input: random.integer(0, 9), output: random.integer(1, 9) } });
    const note = (eventId: string, body: unknown) => {
      // A replay answers what was answered first.
      if (answered.has(eventId)) expect(body).toEqual(answered.get(eventId));
      answered.set(eventId, body);
    };
    let count = 0;
    const acts = {
      set: () => setVersion(),
      use: async () => {
        const [eventId, body] = [`e${count++}`, usage()];
        const ago = random.chance(0.3)
          ? { occurredAt: new Date(w.clock.ms - random.integer(0, 3_000)).toISOString() }
          : {};
        for (const at of [random.pick(isolates), random.pick(isolates)]) {
          const answer = await at.spend(eventId, { ...body, ...ago });
          expect(answer.status, JSON.stringify(answer.body)).toBe(200);
          note(eventId, answer.body);
        }
      },
      hold: async () => {
        const id = `res_${count++}`;
        const sent = random.chance(0.5) ? usage() : { event: "chat", quantities: { cents: 1 } };
        const charge = { expiresInSeconds: random.integer(1, 3), onExpiry: random.pick(["charge", "return"]) };
        const answer = await random.pick(isolates).reserve({ reservationId: id, ...sent, ...charge });
        expect(answer.status, JSON.stringify(answer.body)).toBe(200);
        pinned.set(id, 0);
      },
      commit: async () => {
        if (pinned.size === 0) return;
        const id = random.pick([...pinned.keys()]);
        const answer = await changeReservation(random.pick(isolates), id, "commit", {
          eventId: `c${id}`,
          ...{ meters: usage().meters },
        });
        if (answer.status === 200) note(`c${id}`, answer.body);
      },
      cron: () => runHoldsPart(w),
    };
    for (let round = 0; round < ROUNDS; round++) {
      w.clock.advance(random.integer(0, 1_500));
      const weights = { set: 2, use: 5, hold: 3, commit: 3, cron: 1 };
      const names = Array.from({ length: random.integer(2, 8) }, () => random.weighted(weights));
      await Promise.all(names.map((name) => acts[name]()));
    }
    w.clock.advance(10_000);
    await runHoldsPart(w);
    const { results } = await env.DB.prepare(
      `SELECT e.event_id AS id, e.cents_minor AS minor, e.cost_minor AS cost, e.price_version AS version, r.price_version AS ofHold,
         CAST(p.note AS INTEGER) AS n, (SELECT sum(value) FROM json_each(e.meters)) AS used
       FROM usage_events AS e JOIN price_lists AS p ON p.environment_id = e.environment_id AND p.version = e.price_version
       LEFT JOIN reservations AS r ON r.environment_id = e.environment_id AND r.id = e.reservation_id
       WHERE e.environment_id = ? AND e.meters IS NOT NULL`,
    )
      .bind(environmentId)
      .all<Record<"minor" | "cost" | "version" | "ofHold" | "n" | "used", number> & { id: string }>();
    expect(results.length).toBeGreaterThan(0);
    for (const { id, minor, cost, version, ofHold, n, used } of results) {
      expect([id, minor, cost]).toEqual([id, n * used * 1_000, n * used]);
      if (ofHold !== null) expect([id, version]).toEqual([id, ofHold]);
      const answer = answered.get(id);
      if (answer !== undefined)
        expect(answer).toMatchObject({ priceVersion: version, quantities: { cents: minor / 1e6 } });
    }
  }
});

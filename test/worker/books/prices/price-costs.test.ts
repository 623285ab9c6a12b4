import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { makePricedSpender } from "../../../support/metered.ts";
import { changeReservation, type Spender } from "../../../support/spender.ts";
import { wrappedD1 } from "../../../support/wrapped-d1.ts";

/** A D1 that counts trips, statements and rows, and a function that returns the counts of a call. */
function measuredD1() {
  let cost = { trips: 0, statements: 0, rowsRead: 0, rowsWritten: 0 };
  const d1 = wrappedD1(
    env.DB,
    async (send, statements) => {
      const results = await send(statements);
      cost.trips++;
      cost.statements += results.length;
      for (const { meta } of results) {
        cost.rowsRead += meta.rows_read;
        cost.rowsWritten += meta.rows_written;
      }
      return results;
    },
    { isMeasured: true },
  );
  const costOf = async (call: () => Promise<{ status: number }>) => {
    cost = { trips: 0, statements: 0, rowsRead: 0, rowsWritten: 0 };
    const { status } = await call();
    expect(status).toBe(200);
    return cost;
  };
  return { d1, costOf };
}

const RULES = [{ unit: "cents", per: { input: 0.001 } }];
const METERS = { input: 10 };
const CENTS = { quantities: { count: 0, cents: 0.01 } };

/** The costs of an event, a hold and its commit, with an isolate that knows nothing and then one that has just written. */
async function costsOf(rules: readonly object[] | null, body: object) {
  const { d1, costOf } = measuredD1();
  const w = await makePricedSpender(undefined, { DB: d1 });
  if (rules !== null) await w.setPrices(rules);
  await w.spend("first", CENTS);
  const ofCalls = async (at: Spender, name: string) => ({
    event: await costOf(() => at.spend(`${name} event`, body)),
    hold: await costOf(() => at.reserve({ reservationId: `res_${name}`, ...body })),
    commit: await costOf(() => changeReservation(at, `res_${name}`, "commit", { eventId: `${name} commit`, ...body })),
  });
  const isolate = w.inNewIsolate();
  await isolate.spend("warm", body);
  const warm = await ofCalls(isolate, "warm");
  const cold = {
    event: await costOf(() => w.inNewIsolate().spend("cold event", body)),
    hold: await costOf(() => w.inNewIsolate().reserve({ reservationId: "res_cold", ...body })),
    commit: await costOf(() =>
      changeReservation(w.inNewIsolate(), "res_cold", "commit", { eventId: "cold commit", ...body }),
    ),
  };
  return { cold, warm };
}

it("usage with quantities costs the same with a price list as without one", async () => {
  expect(await costsOf(RULES, CENTS)).toEqual(await costsOf(null, CENTS));
});

it("usage with meters takes no trip more, and in a new isolate reads the index and the version, two rows; in one that has written none", async () => {
  const [priced, plain] = [await costsOf(RULES, { meters: METERS }), await costsOf(null, CENTS)];
  for (const call of ["event", "hold", "commit"] as const) {
    for (const isolate of ["cold", "warm"] as const) {
      const [cost, without] = [priced[isolate][call], plain[isolate][call]];
      expect(cost.trips, `${isolate} ${call}`).toBe(without.trips);
      expect(cost.rowsWritten, `${isolate} ${call}`).toBe(without.rowsWritten);
      const more = isolate === "warm" ? 0 : 2;
      expect(cost.rowsRead - without.rowsRead, `${isolate} ${call}`).toBeLessThanOrEqual(more);
    }
  }
});

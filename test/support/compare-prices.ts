import { env } from "cloudflare:workers";
import { expect } from "vitest";
import type { Pair } from "./history.ts";

/** Compares the stored price of each event and hold: meters, version and cost. Erased users have other ids, and are left out. */
export async function comparePrices({ environmentId, model }: Pair, where: string): Promise<number> {
  const priceOf = `meters, price_version AS version, cost_minor AS cost`;
  const { results } = await env.DB.prepare(
    `SELECT 0 AS isHold, event_id AS id, ${priceOf} FROM usage_events WHERE environment_id = ?1
     UNION ALL SELECT 1, id, ${priceOf} FROM reservations WHERE environment_id = ?1`,
  )
    .bind(environmentId)
    .all<{ isHold: 0 | 1; id: string; meters: string | null; version: number | null; cost: number | null }>();
  let priced = 0;
  for (const { isHold, id, meters, version, cost } of results) {
    // A charge has the id of its hold.
    const hold = isHold === 1 ? model.holds.get(id) : undefined;
    const use = hold?.use ?? model.events.get(id)?.use;
    if (use === undefined) continue;
    const expected = {
      meters: use.meters ?? null,
      version: hold === undefined ? (use.priceVersion ?? null) : hold.pinned,
      cost: use.meters === undefined ? null : model.prices.cost(use),
    };
    const stored = { meters: JSON.parse(meters ?? "null"), version, cost: cost === null ? null : BigInt(cost) };
    expect(stored, `price of ${id} ${where}`).toEqual(expected);
    if (meters !== null) priced++;
  }
  return priced;
}

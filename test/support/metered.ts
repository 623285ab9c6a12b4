import { env } from "cloudflare:workers";
import { expect } from "vitest";
import { makeSpender, wallet } from "./spender.ts";
import { makeClient, type TestItem } from "./world.ts";

/** A spender, and a function that sets the price list of its application. */
export async function makePricedSpender(items: readonly TestItem[] = [wallet], bindings: Partial<Env> = {}) {
  const spender = await makeSpender(items, bindings);
  const call = makeClient(spender.clock);
  const path = `/api/v1/admin/apps/${spender.app.appId}/prices`;
  const setPrices = async (rules: readonly object[], more: object = {}): Promise<number> => {
    const answer = await call("PUT", path, { key: env.ADMIN_TOKEN, body: { mode: "live", rules, ...more } });
    expect(answer.status, JSON.stringify(answer.body)).toBe(200);
    return answer.body.version;
  };
  return { ...spender, spender, setPrices };
}

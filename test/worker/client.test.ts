import { createExecutionContext } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { expect, it, vi } from "vitest";
import { InsufficientCredits, Purser, verifyWebhook } from "../../clients/typescript/src/index.ts";
import { createWorkerApp } from "../../src/app.ts";
import { bound, makeApp, makeOpenAmountPack } from "../support/world.ts";

it("the client sends calls, reads pages, holds credits, throws errors and checks signatures inside workerd", async () => {
  const { appId, keys } = await makeApp();
  const app = createWorkerApp();
  await makeOpenAmountPack(appId, "Tokens", "tokens");
  const purser = new Purser({
    url: "https://purser.example",
    key: keys.sk_live,
    fetch: async (url, init) => app.fetch(new Request(url, init), bound(), createExecutionContext()),
  });
  await purser.grantCredits({ userId: "u", packId: "tokens", quantity: 100 });
  const usage = { userId: "u", event: "chat", quantities: { tokens: 60 } };
  const hold = await purser.usage.hold(usage, ({ used }) => {
    used({ tokens: 40 }, "large");
    return "done";
  });
  expect(hold).toMatchObject({ result: "done", usage: { debits: [{ amount: 40, remaining: 60 }] }, uncovered: null });
  const models: (string | null)[] = [];
  for await (const { model } of purser.listUsageEvents({ userId: "u" })) models.push(model);
  expect(models).toEqual(["large"]);
  const prices = { mode: "live", rules: [{ event: "priced", unit: "tokens", per: { input: 1, output: 0.5 } }] };
  const setPrices = new Request(`https://purser.example/api/v1/admin/apps/${appId}/prices`, {
    method: "PUT",
    headers: { authorization: `Bearer ${env.ADMIN_TOKEN}`, "content-type": "application/json" },
    body: JSON.stringify(prices),
  });
  expect((await app.fetch(setPrices, bound(), createExecutionContext())).status).toBe(200);
  await purser.grantCredits({ userId: "m", packId: "tokens", quantity: 20 });
  const metered = { userId: "m", event: "priced", meters: { input: 10, output: 20 } };
  const priced = await purser.usage.hold(metered, ({ used, holds }) => {
    expect(holds).toMatchObject([{ amount: 20 }]);
    used({ meters: { input: 3, output: 4 } }, "small");
  });
  expect(priced.usage).toMatchObject({ quantities: { tokens: 5 }, meters: { input: 3, output: 4 }, priceVersion: 1 });
  await expect(
    purser.usage.hold({ ...metered, meters: { input: 1 } }, ({ used }) => used({ meters: { input: Number.NaN } })),
  ).rejects.toThrow("meters.input");
  const free = { userId: "nobody", event: "chat", quantities: { cents: 0 } };
  expect(await purser.usage.hold(free, ({ used }) => used({ cents: 0 }))).toMatchObject({ uncovered: null });
  await purser.recordUsageEvent(usage);
  await expect(purser.recordUsageEvent(usage)).rejects.toThrow(InsufficientCredits);
  const deltas: number[] = [];
  for await (const { delta } of purser.listLedgerEntries({ userId: "u", limit: 2 })) deltas.push(delta);
  expect(deltas).toEqual([-60, -40, 60, -60, 100]);
  const headers = {
    "webhook-id": "msg_1",
    "webhook-timestamp": `${Math.floor(Date.now() / 1_000)}`,
    "webhook-signature": "v1,AAAA",
  };
  await expect(verifyWebhook(new Headers(headers), "{}", "whsec_c2VjcmV0")).rejects.toThrow("No signature");
});

it("the client passes warnings to onWarning with their operation, and by default prints each warning once", async () => {
  const { appId, keys } = await makeApp();
  const app = createWorkerApp();
  await makeOpenAmountPack(appId, "Tokens", "tokens");
  const settings = {
    url: "https://purser.example",
    key: keys.sk_live,
    fetch: async (url: string, init: RequestInit) =>
      app.fetch(new Request(url, init), bound(), createExecutionContext()),
  };
  const onWarning = vi.fn();
  const warns = vi.spyOn(console, "warn").mockImplementation(() => {});
  const grant = { userId: "u", packId: "tokens", externalRef: "order-1" };
  for (const purser of [new Purser({ ...settings, onWarning }), new Purser(settings), new Purser(settings)]) {
    for (const quantity of [1, 2]) await purser.grantCredits({ ...grant, quantity });
  }
  const warning = "This externalRef was granted before with another quantity, and nothing more was granted.";
  const about = { operation: "grantCredits", requestId: expect.stringMatching(/./) };
  expect(onWarning.mock.calls).toEqual([[warning, about]]);
  expect(warns.mock.calls.filter(([text]) => String(text).includes(warning))).toHaveLength(1);
  warns.mockRestore();
});

import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { beforeAll, expect, it } from "vitest";
import { PurserAdmin } from "../../clients/typescript/src/admin.ts";
import { Purser } from "../../clients/typescript/src/index.ts";
import { DAY_MS } from "../../src/lib/time.ts";
import { node20 } from "./support/runtimes.ts";
import { ADMIN_TOKEN, type ServedApp, type Server, sharedServer } from "./support/server.ts";

// Runs the unchanged code of docs/usage.md, on Node 20 if this machine has it.

const run = promisify(execFile);
const page = readFileSync(join(import.meta.dirname, "../../docs/usage.md"), "utf8");

/** Returns the code below a heading of the page. */
function codeOf(heading: string): string {
  const [, below = ""] = page.split(`## ${heading}\n`);
  const code = /^```js\n([\s\S]*?)^```$/m.exec(below)?.[1];
  if (code === undefined) throw new Error(`docs/usage.md has no code below ${heading}.`);
  return code;
}

let server: Server;
let app: ServedApp;
let purser: Purser;
let admin: PurserAdmin;
beforeAll(async () => {
  server = await sharedServer();
  app = await server.makeApp();
  purser = new Purser({ url: server.url, key: app.keys.sk_live });
  admin = new PurserAdmin({ url: server.url, key: ADMIN_TOKEN });
  const day = (ago: number) => new Date(Date.now() - ago * DAY_MS);
  const event = { event: "chat", onShortage: "partial" as const };
  await purser.recordUsageEvents([
    { ...event, userId: "ada", model: "small", quantities: { tokens: 10 }, occurredAt: day(2) },
    { ...event, userId: "ada", model: "small", quantities: { tokens: 5 }, occurredAt: day(2) },
    { ...event, userId: "ada", model: "large", quantities: { tokens: 7 }, occurredAt: day(1) },
    { ...event, userId: "ada", quantities: {}, occurredAt: day(1) },
    { ...event, userId: "ada", model: "small", quantities: { tokens: 999 }, occurredAt: day(8) },
    ...Array.from({ length: 12 }, (_, index) => ({
      ...{ ...event, userId: `user-${index}`, quantities: { tokens: index } },
      occurredAt: new Date("2026-01-15T12:00:00Z"),
    })),
  ]);
});

async function outputOf(code: string, values: Readonly<Record<string, string>>): Promise<string[]> {
  const constants = Object.entries(values).map(([name, value]) => `const ${name} = ${JSON.stringify(value)};\n`);
  const program = `Array.prototype.toSorted ??= function (by) { return [...this].sort(by); };\n${constants.join("")}${code}`;
  const args = ["--input-type=module", "-e", program];
  const { stdout } = await run(node20.command ?? process.execPath, args);
  return stdout.trim().split("\n");
}

it("docs/usage.md shows a user's usage of this week by day and model, in ten lines", async () => {
  const code = codeOf("A user's usage this week, by model").replaceAll("userId,", 'userId: "ada",');
  expect(code.trim().split("\n").length).toBeLessThanOrEqual(10);
  const dayOf = (ago: number) => new Date(Date.now() - ago * DAY_MS).toISOString().slice(0, 10);
  expect(await outputOf(code, { purser: server.url, key: app.keys.sk_live })).toEqual([
    `${dayOf(2)} small 2 15 0`,
    `${dayOf(1)} no model 1 0 0`,
    `${dayOf(1)} large 1 7 0`,
  ]);
});

it("docs/usage.md shows the ten largest users of a month by tokens, once the cron has summed them", async () => {
  await server.cron();
  const values = { purser: server.url, appId: app.appId, adminToken: ADMIN_TOKEN };
  expect(await outputOf(codeOf("The ten largest users of a month"), values)).toEqual(
    [11, 10, 9, 8, 7, 6, 5, 4, 3, 2].map((tokens) => `user-${tokens} 1 ${tokens}`),
  );
});

it("the client returns the same usage with a secret key, and with an administration key that may read people's data", async () => {
  const week = { from: new Date(Date.now() - 7 * DAY_MS), groupBy: "day,model" };
  const { totals } = await purser.getUsageTotals({ userId: "ada", ...week });
  expect(totals).toHaveLength(3);
  const events = [];
  for await (const event of purser.listUsageEvents({ userId: "ada", model: "small", limit: 1 })) events.push(event);
  expect(events.map(({ quantities }) => quantities.tokens)).toEqual([5, 10, 999]);
  const { eventId = "" } = events[0] ?? {};
  expect((await purser.listUsageEvents({ eventId })).userId).toBe("ada");

  const month = { appId: app.appId, mode: "live", from: "2026-01-01T00:00:00Z", to: "2026-02-01T00:00:00Z" } as const;
  await server.cron();
  const { key } = await admin.createAdminKey({
    name: "Support",
    scopes: ["people"],
    apps: [app.appId],
    modes: ["live"],
  });
  const support = new PurserAdmin({ url: server.url, key, retries: 0 });
  const usage = await support.getEnvironmentUsage({ ...month, groupBy: "user" });
  expect(usage.totals).toHaveLength(12);
  await expect(support.getEnvironmentUsage({ ...month, mode: "test", groupBy: "user" })).rejects.toMatchObject({
    ...{ code: "forbidden", status: 403, details: { mode: "test" } },
  });
  const writer = await admin.createAdminKey({ name: "Writer", scopes: ["write"] });
  const refused = new PurserAdmin({ url: server.url, key: writer.key, retries: 0 });
  await expect(refused.getEnvironmentUsage({ ...month, groupBy: "user" })).rejects.toMatchObject({
    ...{ code: "forbidden", details: { scope: "people" } },
  });
  await admin.revokeAdminKey({ adminKeyId: writer.adminKeyId });
  await expect(refused.createPack({ appId: app.appId, packName: "P", items: [], unit: "count" })).rejects.toMatchObject(
    {
      code: "invalid_key",
    },
  );
});

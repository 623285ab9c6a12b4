import { readFileSync } from "node:fs";
import { join } from "node:path";
import Stripe from "stripe";
import { beforeAll, expect, it } from "vitest";
import { PurserAdmin } from "../../clients/typescript/src/admin.ts";
import { Purser } from "../../clients/typescript/src/index.ts";
import { DAY_MS } from "../../src/lib/time.ts";
import { eventOf } from "../support/stripe-events.ts";
import { invoice } from "../support/stripe-invoices.ts";
import { ADMIN_TOKEN, type ServedApp, type Server, sharedServer } from "./support/server.ts";

// Runs the unchanged code of docs/plans.md in a test environment whose clock moves.

const page = readFileSync(join(import.meta.dirname, "../../docs/plans.md"), "utf8");
const signingSecret = "whsec_of_the_tests_0001";
const JANUARY_31_MS = Date.parse("2027-01-31T12:00:00Z");

let server: Server;
let app: ServedApp;
let purser: Purser;
let admin: PurserAdmin;
beforeAll(async () => {
  server = await sharedServer();
  app = await server.makeApp();
  purser = new Purser({ url: server.url, key: app.keys.sk_test });
  admin = new PurserAdmin({ url: server.url, key: ADMIN_TOKEN });
  const { appId } = app;
  await admin.createPack({ appId, packName: "Free", items: [{ unit: "tokens", amount: 100 }] });
  await admin.createPack({ appId, packName: "Pro", items: [{ unit: "tokens", amount: 1_000, priority: 5 }] });
  const setting = {
    signingSecrets: [signingSecret],
    prices: [{ price: "price_pro", packId: "Pro", expires: "period" as const }],
  };
  await admin.setStripe({ appId, mode: "test", setting });
});

/** Returns the code below a heading of the page. */
function codeBelow(heading: string): string {
  const [, below = ""] = page.split(`## ${heading}\n`);
  const code = /^```ts\n([\s\S]*?)^```$/m.exec(below.split("\n## ")[0] ?? "")?.[1];
  if (code === undefined) throw new Error(`docs/plans.md has no code below ${heading}.`);
  return code;
}

/** Runs code of the page with `purser` and these names as variables. */
async function runCode(code: string, names: Readonly<Record<string, unknown>>): Promise<void> {
  // The constructor of async functions has no global name.
  const AsyncFunction = (async () => {}).constructor as FunctionConstructor;
  await new AsyncFunction("purser", ...Object.keys(names), code)(purser, ...Object.values(names));
}
const signUp = (userId: string) => runCode(codeBelow("A free tier at sign-up"), { userId });

const moveTo = (ms: number) => admin.setTestClock({ appId: app.appId, now: new Date(ms) });

async function remainingOf(userId: string): Promise<number[]> {
  const { credits } = await purser.listBalances({ userId });
  return credits.map(({ remaining }) => remaining).sort((a, b) => a - b);
}

it("docs/plans.md grants a free tier by one idempotent call at sign-up, again on each month's last day, and never accumulates it", async () => {
  await moveTo(JANUARY_31_MS);
  for (let time = 0; time < 3; time++) await signUp("ada");
  expect(await remainingOf("ada")).toEqual([100]);
  await purser.recordUsageEvent({ eventId: "1", userId: "ada", event: "chat", quantities: { tokens: 30 } });
  await moveTo(Date.parse("2027-02-28T11:59:59Z"));
  expect(await remainingOf("ada")).toEqual([70]);
  await moveTo(Date.parse("2027-02-28T12:00:01Z"));
  expect(await remainingOf("ada")).toEqual([100]);
});

it("docs/plans.md grants an annual plan's monthly credits with a rollover of one month, until it ends or is cancelled", async () => {
  const paidAtMs = Date.parse("2027-03-01T12:00:00Z");
  await moveTo(paidAtMs);
  const names = { subscriptionId: "sub_1", userId: "bea", paidAtMs, paidUntilMs: Date.parse("2028-03-01T12:00:00Z") };
  await runCode(codeBelow("A plan with monthly credits, paid by the year"), names);
  for (const [months, live] of [
    [0, [1_000]],
    [1, [1_000, 1_000]],
    [2, [1_000, 1_000]],
  ] as const) {
    await moveTo(Date.UTC(2027, 2 + months, 1, 12) + 1_000);
    expect(await remainingOf("bea"), `after ${months} months`).toEqual(live);
  }
  const [keeps = "", revokes = ""] = codeBelow("When the customer cancels").trim().split("\n");
  const recurringId = "rec_pro-sub_1";
  await runCode(keeps, { recurringId });
  expect(await remainingOf("bea")).toEqual([1_000, 1_000]);
  await runCode(revokes, { recurringId });
  expect(await remainingOf("bea")).toEqual([]);
});

it("docs/plans.md grants for a Stripe subscription's invoice beside the free tier, and spends the pack of lower priority first", async () => {
  const startMs = Date.UTC(2027, 6, 1, 12);
  await moveTo(startMs);
  await signUp("cyd");
  const seconds = Math.floor(startMs / 1_000);
  const period = { start: seconds, end: seconds + 31 * 86_400 };
  const lines = [{ id: "il_1", price: "price_pro", period }];
  const paid = eventOf("invoice.paid", seconds, invoice("in_1", { lines, subscription: { user: "cyd" } }));
  const payload = JSON.stringify({ ...paid, livemode: false });
  const response = await fetch(`${server.url}/api/v1/stripe/${app.appId}/test`, {
    method: "POST",
    headers: { "stripe-signature": Stripe.webhooks.generateTestHeaderString({ payload, secret: signingSecret }) },
    body: payload,
  });
  expect(await response.json()).toMatchObject({ outcome: "granted" });
  expect(await remainingOf("cyd")).toEqual([100, 1_000]);
  const { debits } = await purser.recordUsageEvent({
    ...{ eventId: "2", userId: "cyd", event: "chat", quantities: { tokens: 950 } },
  });
  expect(debits.map(({ amount }) => amount)).toEqual([950]);
  await moveTo(startMs + 32 * DAY_MS);
  expect(await remainingOf("cyd")).toEqual([100]);
});

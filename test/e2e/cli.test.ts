import { execFile } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { promisify } from "node:util";
import { Purser } from "purser-client";
import { PurserAdmin } from "purser-client/admin";
import { afterAll, beforeAll, beforeEach, expect, it, onTestFinished } from "vitest";
import { startFaultyProxy } from "./support/faulty-proxy.ts";
import { finished, runProgram, startProgram } from "./support/program.ts";
import { ADMIN_TOKEN, type Server, sharedServer } from "./support/server.ts";
import { SOAK_OPERATIONS } from "./support/soak.ts";

const root = join(import.meta.dirname, "../..");
const PROGRAM = join(root, "clients/cli/dist/purser.cjs");

let server: Server;
let admin: PurserAdmin;
let folder = "";
const SETTINGS = {
  packs: [
    {
      packName: "Starter",
      items: [{ amount: 100_000, unit: "tokens", matches: [{ event: "chat.*" }] }],
      defaultExpiryDays: 30,
    },
    { packName: "Wallet", unit: "cents" },
  ],
  unitNames: { count: { one: "credit", other: "credits" } },
  usageLimits: [{ name: "Images", matches: [{ event: "image" }], unit: "count", amount: 50, every: "day" }],
  alerts: [{ name: "Low", unit: "tokens", below: { percent: 10 } }],
  expiryNotices: [7, 1],
  endUserAuth: { type: "hs256", issuer: "https://auth.example.com/" },
  prices: { rules: [{ event: "chat.*", unit: "cents", per: { input: { amount: 0.000325, units: 1 }, output: 2 } }] },
  stripe: { currency: "usd", prices: [{ price: "price_1", pack: "starter" }] },
  webhooks: [{ url: "https://hooks.example.com/purser", types: ["credits.granted"], isEnabled: false }],
};
const SECRET = "an-end-user-secret-of-32-characters!";

beforeAll(async () => {
  await promisify(execFile)(process.execPath, [join(root, "clients/cli/scripts/build.mjs")], { cwd: root });
  server = await sharedServer();
  admin = new PurserAdmin({ url: server.url, key: ADMIN_TOKEN });
});
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "purser-cli-"));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** The environment of a command. */
const environment = (more: Readonly<Record<string, string>>) => ({
  PATH: process.env.PATH,
  PURSER_URL: server.url,
  PURSER_ADMIN_KEY: ADMIN_TOKEN,
  ...more,
});
const purser = (args: readonly string[], env: Readonly<Record<string, string>> = {}) =>
  runProgram(PROGRAM, args, { folder, env: environment(env) });
/** Starts a process of its own, for a test that kills it or limits its memory. */
const start = (args: readonly string[], env: Readonly<Record<string, string>> = {}) =>
  startProgram(PROGRAM, args, { folder, env: environment({ NODE_OPTIONS: "--max-old-space-size=128", ...env }) });
const write = (settings: object, name = "purser.config.json") =>
  writeFileSync(join(folder, name), JSON.stringify(settings));

/**
 * Returns the address of a server that passes requests on to Purser. Somebody else acts once, before or after the first request of the
 * method reaches Purser.
 */
async function withSomebody(when: "before" | "after", method: string, act: () => Promise<unknown>): Promise<string> {
  let left = 1;
  const between = createServer(async (request, response) => {
    const isTurn = request.method === method && left-- > 0;
    const { authorization, "if-latest-audit-entry": latest } = request.headers;
    const headers = {
      authorization: String(authorization),
      "content-type": "application/json",
      ...(latest === undefined ? {} : { "if-latest-audit-entry": String(latest) }),
    };
    const body = await text(request);
    if (isTurn && when === "before") await act();
    const sent = { method: request.method ?? "GET", headers, ...(body === "" ? {} : { body }) };
    const answer = await fetch(`${server.url}${request.url}`, sent);
    if (isTurn && when === "after") await act();
    const newest = answer.headers.get("latest-audit-entry");
    const told = newest === null ? {} : { "latest-audit-entry": newest };
    response.writeHead(answer.status, { "content-type": "application/json", ...told }).end(await answer.text());
  });
  await new Promise<void>((resolve) => between.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => void between.close());
  // A server listening on a TCP port has an address of this form.
  return `http://127.0.0.1:${(between.address() as AddressInfo).port}`;
}

let names = 0;
const newName = () => {
  names += 1;
  return `Command line ${names}`;
};
const SECRETS = {
  PURSER_END_USER_SECRET: SECRET,
  PURSER_STRIPE_SIGNING_SECRET: "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
};

it("purser pull, diff and push makes a new application from one file in one command, and then changes nothing", async () => {
  write(SETTINGS);
  const app = newName();
  const target = ["--app", app, "--mode", "test"];
  const push = ["push", ...target, "--yes", "--create-app", "--secrets-file", "secrets.tsv"];
  const made = await purser(push, SECRETS);
  expect(made).toMatchObject({ code: 0, err: "" });
  expect(made.out).toContain('+ create pack "Starter"');
  expect(await purser(push, SECRETS)).toMatchObject({ code: 0, out: expect.stringContaining("as the file says") });
  expect(await purser(["diff", ...target])).toEqual({ code: 0, out: "Purser is as the file says.\n", err: "" });
  // The secret of the endpoint is in the file that was named, which others cannot read, and is not printed.
  const [, secret = ""] = readFileSync(join(folder, "secrets.tsv"), "utf8").trim().split("\t");
  expect(secret).toMatch(/^whsec_/);
  expect(statSync(join(folder, "secrets.tsv")).mode & 0o077).toBe(0);
  for (const hidden of [secret, ...Object.values(SECRETS), ADMIN_TOKEN])
    expect(made.out + made.err).not.toContain(hidden);
});

it("purser pull, diff and push moves a set-up between two applications by pull and push, with no secret in the file", async () => {
  write(SETTINGS);
  const [from, to] = [newName(), newName()];
  expect(await purser(["push", "--app", from, "--mode", "live", "--yes", "--create-app"], SECRETS)).toMatchObject({
    code: 0,
  });
  expect(await purser(["pull", "--app", from, "--mode", "live", "--file", "moved.json"])).toMatchObject({ code: 0 });
  const pulled = readFileSync(join(folder, "moved.json"), "utf8");
  for (const secret of Object.values(SECRETS)) expect(pulled).not.toContain(secret);
  const moved = ["--file", "moved.json"];
  expect(
    await purser(["push", "--app", to, "--mode", "live", "--yes", "--create-app", ...moved], SECRETS),
  ).toMatchObject({ code: 0, err: expect.any(String) });
  expect(await purser(["diff", "--app", to, "--mode", "live", ...moved])).toMatchObject({ code: 0 });
  expect(await purser(["pull", "--app", to, "--mode", "live", "--file", "again.json"])).toMatchObject({ code: 0 });
  expect(readFileSync(join(folder, "again.json"), "utf8")).toBe(pulled);
});

it("purser diff and push takes explicit defaults for the same settings, and pull writes what diff reads", async () => {
  const target = ["--app", newName(), "--mode", "test"];
  write({
    packs: [
      { packName: "Starter", items: [{ amount: 10, unit: "tokens", matches: [], priority: 100 }] },
      { packName: "Wallet", items: [], unit: "cents", matches: [], priority: 100, defaultExpiryDays: null },
    ],
    usageLimits: [
      { name: "An hour", unit: "count", amount: 5, every: "hour", matches: [], per: "user" },
      { name: "A day", unit: "count", amount: 5, every: "day", timeZone: "UTC" },
    ],
    endUserAuth: { type: "hs256", claim: "sub", origins: [] },
    prices: { rules: [{ unit: "tokens", per: { input: 1 } }], costs: [], note: null },
    stripe: { prices: [{ price: "price_1", pack: "starter", expires: "pack", trial: false }] },
    webhooks: [{ url: "https://hooks.example.com/purser", types: null, description: null, isEnabled: true }],
  });
  const made = await purser(["push", ...target, "--yes", "--create-app", "--secrets-file", "secrets.tsv"], SECRETS);
  expect(made).toMatchObject({ code: 0, err: "" });
  const same = { code: 0, out: "Purser is as the file says.\n", err: "" };
  expect(await purser(["diff", ...target])).toEqual(same);
  expect(await purser(["pull", ...target])).toMatchObject({ code: 0, err: "" });
  expect(await purser(["diff", ...target])).toEqual(same);
});

it("purser pull leaves out a section in which two things have one name, says so, and writes what diff reads", async () => {
  const app = newName();
  const target = ["--app", app, "--mode", "test"];
  write(SETTINGS);
  await purser(["push", ...target, "--yes", "--create-app", "--secrets-file", "secrets.tsv"], SECRETS);
  const { apps } = await admin.listApps();
  const appId = apps.find(({ name }) => name === app)?.appId ?? "";
  await admin.createAlert({ appId, mode: "test", name: "LOW", unit: "tokens", below: { amount: 5 } });
  await admin.createWebhook({ appId, mode: "test", url: SETTINGS.webhooks[0]?.url ?? "", types: ["credits.low"] });
  const pulled = await purser(["pull", ...target]);
  expect(pulled.code).toBe(0);
  expect(pulled.err).toMatch(/leaves out alerts: Purser has alert "LOW" twice/);
  expect(pulled.err).toMatch(/leaves out webhooks: Purser has webhook endpoint "\S+" twice/);
  expect(await purser(["diff", ...target])).toEqual({ code: 0, out: "Purser is as the file says.\n", err: "" });
  expect(await purser(["pull", ...target, "--file", "again.json"])).toMatchObject({ code: 0 });
  expect(readFileSync(join(folder, "again.json"), "utf8")).not.toMatch(/"alerts"|"webhooks"/);
});

it("purser pull, diff and push shows what differs, ends with 2, and changes, archives and deletes only what it is told to", async () => {
  const app = newName();
  const target = ["--app", app, "--mode", "test"];
  write({ packs: SETTINGS.packs, usageLimits: SETTINGS.usageLimits, alerts: SETTINGS.alerts });
  await purser(["push", ...target, "--yes", "--create-app"]);
  write({
    packs: [{ ...SETTINGS.packs[0], defaultExpiryDays: 60 }],
    usageLimits: [{ ...SETTINGS.usageLimits[0], amount: 60 }],
    alerts: [],
  });
  const differs = await finished(start(["diff", ...target, "--json"]));
  expect(differs.code).toBe(2);
  expect(JSON.parse(differs.out).changes).toMatchObject([
    { action: "change", what: 'pack "Starter"', fields: [{ field: "defaultExpiryDays", before: 30, after: 60 }] },
    { action: "change", what: 'usage limit "Images"', fields: [{ field: "amount", before: 50, after: 60 }] },
    { action: "archive", what: 'pack "Wallet"', isPruning: true },
    { action: "delete", what: 'alert "Low"', isPruning: true },
  ]);
  expect(await purser(["push", ...target, "--dry-run", "--prune"])).toMatchObject({ code: 0 });
  expect(await purser(["push", ...target])).toMatchObject({ code: 1, err: expect.stringContaining("--yes") });
  expect((await purser(["diff", ...target, "--json"])).out).toBe(differs.out);
  expect(await purser(["push", ...target, "--yes"])).toMatchObject({ code: 0 });
  const left = await purser(["diff", ...target, "--json"]);
  expect(JSON.parse(left.out).changes.map(({ action }: { action: string }) => action)).toEqual(["archive", "delete"]);
  expect(await purser(["push", ...target, "--yes", "--prune"])).toMatchObject({ code: 0 });
  expect(await purser(["diff", ...target])).toMatchObject({ code: 0 });
});

it("purser pull, diff and push keeps the balances that were granted, and the ids of a changed pack's items", async () => {
  const { appId, keys } = await server.makeApp();
  const target = ["--app", appId, "--mode", "live"];
  write({ packs: SETTINGS.packs });
  await purser(["push", ...target, "--yes"]);
  const client = new Purser({ url: server.url, key: keys.sk_live });
  await client.grantCredits({ userId: "ada", packId: "starter", externalRef: "1" });
  const items = async () =>
    (await admin.listPacks({ appId })).packs.find(({ packName }) => packName === "Starter")?.items;
  const before = await items();
  write({ packs: [{ ...SETTINGS.packs[0], items: [{ amount: 5, unit: "tokens" }] }, SETTINGS.packs[1]] });
  expect(await purser(["push", ...target, "--yes"])).toMatchObject({ code: 0 });
  expect(await items()).toMatchObject([{ packItemId: before?.[0]?.packItemId, amount: 5 }]);
  expect((await client.listBalances({ userId: "ada" })).credits).toMatchObject([{ remaining: 100_000 }]);
});

it("purser diff and push sees that a price of Stripe means an archived pack, and gives it the new pack of that name", async () => {
  const { appId } = await admin.createApp({ name: newName() });
  const target = ["--app", appId, "--mode", "test"];
  const prices = [{ price: "price_1", pack: "wallet", quantity: 100 }];
  write({ packs: [{ packName: "Wallet", unit: "cents" }], stripe: { prices } });
  expect(await purser(["push", ...target, "--yes"], SECRETS)).toMatchObject({ code: 0 });
  const { packs } = await admin.listPacks({ appId });
  await admin.archivePack({ appId, packId: packs[0]?.packId ?? "" });
  const { packId } = await admin.createPack({ appId, packName: "Wallet", items: [], unit: "cents" });

  expect(await purser(["diff", ...target])).toMatchObject({
    code: 2,
    out: expect.stringContaining("change Stripe's prices"),
  });
  expect(await purser(["push", ...target, "--yes"])).toMatchObject({ code: 0 });
  expect((await admin.getStripe({ appId, mode: "test" })).setting?.prices).toMatchObject([{ packId }]);
  expect(await purser(["diff", ...target])).toMatchObject({ code: 0 });
});

it("purser pull and push reject a key that may not see the URLs of endpoints, and create none twice", async () => {
  const { appId } = await admin.createApp({ name: `Masked ${crypto.randomUUID()}` });
  const { webhooks } = SETTINGS;
  write({ webhooks });
  const target = ["--app", appId, "--mode", "test"];
  expect((await purser(["push", "--yes", ...target])).code).toBe(0);
  const { key } = await admin.createAdminKey({ name: "CI", scopes: ["read", "write", "settings", "access"] });
  for (const command of [
    ["push", "--yes"],
    ["pull", "--file", "pulled.json"],
  ]) {
    const { code, err } = await purser([...command, ...target], { PURSER_ADMIN_KEY: key });
    expect([code, err]).toEqual([1, expect.stringContaining("The administration key lacks the scope `people`")]);
  }
  expect((await admin.listWebhooks({ appId, mode: "test" })).webhooks).toHaveLength(webhooks.length);
  expect(existsSync(join(folder, "pulled.json"))).toBe(false);
});

it("purser pull, diff and push stops with nothing more done when something changes meanwhile, and says what and by whom", async () => {
  const app = newName();
  const target = ["--app", app, "--mode", "test"];
  const { appId } = await admin.createApp({ name: app });
  const alerts = ["First", "Second"].map((name) => ({ name, unit: "tokens", below: { amount: 1 } }));
  write({ alerts });
  // Somebody else makes an alert after the first one of the push is made.
  const PURSER_URL = await withSomebody("after", "POST", () =>
    admin.createAlert({ appId, mode: "test", name: "Other", unit: "tokens", below: { amount: 1 } }),
  );
  const stopped = await purser(["push", ...target, "--yes"], { PURSER_URL });
  expect(stopped).toMatchObject({ code: 1, err: expect.stringContaining("The alerts changed meanwhile") });
  expect(stopped.err).toMatch(/^The alerts .*:\n {2}\S+ alert\.created \S+ by api\nRun/);
  const now = async () => (await admin.listAlerts({ appId, mode: "test" })).alerts.map(({ name }) => name).sort();
  expect(await now()).toEqual(["First", "Other"]);
  // Run again, it ends what it began.
  expect(await purser(["push", ...target, "--yes"])).toMatchObject({ code: 0 });
  expect(await now()).toEqual(["First", "Other", "Second"]);
});

it("purser pull, diff and push never overwrites another's change of the same limit, made between its read and its write", async () => {
  const { appId } = await admin.createApp({ name: newName() });
  const target = ["--app", appId, "--mode", "test", "--yes"];
  write({ usageLimits: SETTINGS.usageLimits });
  await purser(["push", ...target]);
  write({ usageLimits: [{ ...SETTINGS.usageLimits[0], amount: 60 }] });
  const limits = async () => (await admin.listUsageLimits({ appId, mode: "test" })).limits;
  const [limit] = await limits();
  const PURSER_URL = await withSomebody("before", "PATCH", () =>
    admin.changeUsageLimit({ appId, limitId: limit?.limitId ?? "", amount: 70 }),
  );
  const stopped = await purser(["push", ...target], { PURSER_URL });
  expect(stopped).toMatchObject({ code: 1, out: expect.not.stringContaining("Done") });
  expect(stopped.err).toMatch(/^The usageLimits changed meanwhile.*\n {2}\S+ usage_limit\.changed lim_\S+ by api\nRun/);
  expect(await limits()).toMatchObject([{ amount: 70 }]);
});

it("purser pull, diff and push goes on where something outside of the file changes between its read and its write", async () => {
  const { appId } = await admin.createApp({ name: newName() });
  write({ expiryNotices: [7] });
  const PURSER_URL = await withSomebody("before", "PUT", () =>
    admin.createKey({ appId, mode: "test", kind: "secret" }),
  );
  const push = ["push", "--app", appId, "--mode", "test", "--yes"];
  expect(await purser(push, { PURSER_URL })).toMatchObject({ code: 0, err: "" });
  expect(await admin.getExpiryNotices({ appId, mode: "test" })).toMatchObject({ days: [7] });
});

it("purser push creates an application only after it was agreed to, and not while a database does not answer", async () => {
  const app = newName();
  const push = ["push", "--app", app, "--mode", "test", "--create-app"];
  write({ packs: [{ packName: "Wallet", unit: "cents" }], expiryNotices: [], unitNames: {} });
  const isThere = async () => (await admin.listApps()).apps.some(({ name }) => name === app);

  expect(await purser(push)).toMatchObject({ code: 1, err: expect.stringContaining("no terminal") });
  expect(await isThere()).toBe(false);
  const shown = `${app}, test mode\n+ create application "${app}"\n+ create pack "Wallet"\n`;
  expect(await purser([...push, "--dry-run"])).toEqual({ code: 0, out: shown, err: "" });
  expect(await isThere()).toBe(false);

  const partial = createServer((_request, response) =>
    response.writeHead(200, { "content-type": "application/json" }).end('{"apps":[],"unreachable":["DB_1"]}'),
  );
  await new Promise<void>((resolve) => partial.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => void partial.close());
  // A server listening on a TCP port has an address of this form.
  const PURSER_URL = `http://127.0.0.1:${(partial.address() as AddressInfo).port}`;
  const unsure = await purser([...push, "--yes"], { PURSER_URL });
  expect(unsure).toMatchObject({ code: 1, err: expect.stringContaining("DB_1 did not answer") });
});

it("purser pull, diff and push ends what it began after a kill at any point", async () => {
  const app = newName();
  const push = ["push", "--app", app, "--mode", "test", "--yes", "--create-app"];
  write(SETTINGS);
  for (const afterMs of [300, 450, 600]) {
    const child = start(push, SECRETS);
    const timer = setTimeout(() => child.kill("SIGKILL"), afterMs);
    await finished(child);
    clearTimeout(timer);
  }
  expect(await purser(push, SECRETS)).toMatchObject({ code: 0 });
  expect(await purser(["diff", "--app", app, "--mode", "test"])).toMatchObject({ code: 0 });
  expect((await admin.listApps()).apps.filter(({ name }) => name === app)).toHaveLength(1);
});

it("purser pull, diff and push rejects a misspelt field, a thing that is there twice, and a lacking secret, before it changes anything", async () => {
  const app = newName();
  const push = ["push", "--app", app, "--mode", "test", "--yes", "--create-app"];
  write({ alerts: [{ name: "Low", unit: "tokens", belw: { amount: 1 } }] });
  expect(await purser(push)).toMatchObject({ code: 1, err: expect.stringContaining("#/alerts/0") });
  write({ alerts: [SETTINGS.alerts[0], { ...SETTINGS.alerts[0], name: "LOW" }] });
  expect(await purser(push)).toMatchObject({ code: 1, err: expect.stringContaining("twice") });
  write({ endUserAuth: SETTINGS.endUserAuth });
  expect(await purser(push)).toMatchObject({ code: 1, err: expect.stringContaining("PURSER_END_USER_SECRET") });
  expect(await purser(["diff", "--mode", "test"], { PURSER_ADMIN_KEY: "" })).toMatchObject({
    code: 1,
    err: expect.stringContaining("PURSER_ADMIN_KEY"),
  });
});

async function world() {
  const { appId, keys } = await server.makeApp();
  await admin.createPack({ appId, packName: "Tokens", items: [], unit: "tokens" });
  await admin.createPack({ appId, packName: "Starter", items: [{ amount: 1, unit: "tokens" }] });
  const client = new Purser({ url: server.url, key: keys.sk_live });
  const command = ["import", "balances.csv", "--app", appId, "--mode", "live", "--json"];
  const env = { PURSER_SECRET_KEY: keys.sk_live };
  const run = (...more: readonly string[]) => purser([...command, ...more], env);
  const remaining = async (userId: string) =>
    (await client.listBalances({ userId })).credits.map((credit) => credit.remaining);
  return { run, remaining, appId, keys, command, env };
}
const file = (text: string) => writeFileSync(join(folder, "balances.csv"), text);
const refused = () => readFileSync(join(folder, "balances.csv.refused.csv"), "utf8").trim().split("\n").slice(1);

it("purser import grants each line once, in a second run too, and says before what it would do", async () => {
  const { run, remaining } = await world();
  file("userId,unit,remaining,expiresAt,ref\nada,tokens,12.5,,a\nbob,tokens,0.001,2099-01-01T00:00:00Z,b\n");
  const dry = await run("--dry-run");
  expect(JSON.parse(dry.out)).toMatchObject({ granted: 2, refused: 0, sums: { Tokens: "12.501" }, isDryRun: true });
  expect(await remaining("ada")).toEqual([]);
  expect(JSON.parse((await run()).out)).toMatchObject({ granted: 2, repeated: 0, refused: 0 });
  expect(JSON.parse((await run()).out)).toMatchObject({ granted: 0, repeated: 2, refused: 0 });
  expect([await remaining("ada"), await remaining("bob")]).toEqual([[12.5], [0.001]]);
});

it("purser import grants nothing with a secret key of the other mode", async () => {
  const { run, remaining } = await world();
  file("userId,unit,remaining,ref\nada,tokens,1,a\n");
  const refusal = { code: 1, out: "", err: expect.stringContaining("not a secret key of test mode, sk_test_") };
  expect(await run("--mode", "test")).toEqual(refusal);
  expect(await remaining("ada")).toEqual([]);
});

it("purser import reads a BOM, semicolons, quotes, and columns in any order, and refuses lines with their reasons", async () => {
  const { run, remaining } = await world();
  const lines = [
    "\uFEFFref;user_id;Remaining;pack;expires_at",
    '1;"grace ""the"" user";10;Tokens;',
    "2;ada;-5;Tokens;",
    "3;ada;5;Tokens;2001-01-01T00:00:00Z",
    "4;ada;7;Tokens;",
    "4;ada;8;Tokens;",
    "5;ada;1,5;Tokens;",
    "6;ada;0.0001;Tokens;",
    "7;ada;1;Starter;",
    "8;ada;1;Nothing;",
    ";ada;1;Tokens;",
    "9;;1;Tokens;",
    "10;ada;1",
    "11;ada;1e400;Tokens;",
    '12;"never closed;1;Tokens;',
  ];
  file(lines.join("\r\n"));
  const imported = await run();
  expect(imported.code).toBe(2);
  expect(JSON.parse(imported.out)).toMatchObject({ granted: 2, refused: 12 });
  expect([await remaining('grace "the" user'), await remaining("ada")]).toEqual([[10], [7]]);
  const reasons = refused();
  expect(reasons).toHaveLength(12);
  expect(reasons[0]).toBe('3,"2","remaining is negative."');
  expect(reasons.filter((line) => /earlier line|invalid_request/.test(line))).toHaveLength(2);
});

it("purser import reads NDJSON, and says so when a ref was imported with another amount", async () => {
  const { run, remaining } = await world();
  file('{"userId":"ada","unit":"tokens","remaining":12.5,"ref":"a","expiresAt":null}\nno json\n');
  expect(JSON.parse((await run()).out)).toMatchObject({ granted: 1, refused: 1 });
  file('{"userId":"ada","unit":"tokens","remaining":"13","ref":"a"}\n');
  expect(JSON.parse((await run()).out)).toMatchObject({ granted: 0, repeated: 0, refused: 1 });
  expect(refused()[0]).toContain("another amount");
  expect(await remaining("ada")).toEqual([12.5]);
});

it("purser import goes on where it was cut, and grants each line once", async () => {
  const { run, appId, keys, remaining } = await world();
  const count = 600;
  const lines = Array.from({ length: count }, (_, at) => `user_${at},tokens,${at + 1},r${at}`);
  // The first line is refused, and stays refused once.
  file(["userId,unit,remaining,ref", "user_0,tokens,-1,r", ...lines].join("\n"));
  const child = start(["import", "balances.csv", "--app", appId, "--mode", "live"], {
    PURSER_SECRET_KEY: keys.sk_live,
  });
  const ended = finished(child);
  const progress = join(folder, "balances.csv.progress.json");
  const grantedNow = () => (existsSync(progress) ? JSON.parse(readFileSync(progress, "utf8")).granted : 0);
  await expect.poll(grantedNow, { timeout: 60_000 }).toBeGreaterThan(0);
  child.kill("SIGKILL");
  expect((await ended).err).not.toMatch(/Line 0|refused/);
  // Each line counts once, also those that the killed run granted after it last noted its place.
  expect(JSON.parse((await run()).out)).toMatchObject({ granted: count, repeated: 0, refused: 1 });
  expect(existsSync(join(folder, "balances.csv.progress.json"))).toBe(false);
  expect([await remaining("user_0"), await remaining(`user_${count - 1}`)]).toEqual([[1], [count]]);
  const { results } = await server.db
    .prepare("SELECT count(*) AS n FROM credit_balances WHERE external_ref LIKE 'import:r%'")
    .all<{ n: number }>();
  expect(results[0]?.n).toBe(count);
});

it("purser import counts a line as granted whose answer was lost, and as granted before what an earlier import granted", async () => {
  const { appId, keys, run, remaining } = await world();
  file("userId,unit,remaining,ref\nearly,tokens,1,a\n");
  expect(JSON.parse((await run()).out)).toMatchObject({ granted: 1, repeated: 0 });
  // The server's clock is told in whole seconds.
  await new Promise((resolve) => setTimeout(resolve, 1_100));
  const proxy = await startFaultyProxy(server.url);
  onTestFinished(proxy.close);
  const tried = new Set<string>();
  // The first answer of each grant is lost.
  proxy.chance = (request) => {
    if (!request.startsWith("POST /api/v1/credits/grant") || tried.has(request)) return null;
    tried.add(request);
    return "lost";
  };
  const lines = Array.from({ length: 10 }, (_, at) => `user_${at},tokens,${at + 1},r${at}`);
  file(["userId,unit,remaining,ref", "early,tokens,1,a", ...lines].join("\n"));
  const imported = await purser(["import", "balances.csv", "--app", appId, "--mode", "live", "--json"], {
    ...{ PURSER_SECRET_KEY: keys.sk_live, PURSER_URL: proxy.url },
  });
  expect(JSON.parse(imported.out)).toMatchObject({ granted: 10, repeated: 1, refused: 0 });
  expect(tried.size).toBe(11);
  expect([await remaining("early"), await remaining("user_9")]).toEqual([[1], [10]]);
});

it("purser import checks many lines in bounded memory, in the soak a million", async () => {
  const { command, env } = await world();
  const thousands = SOAK_OPERATIONS > 0 ? 1_000 : 200;
  const lines = Array.from({ length: 1_000 }, (_, at) => `user_${at},tokens,1,`);
  const rows = Array.from({ length: thousands }, (_, at) => lines.map((line) => `${line}${at}`).join("\n")).join("\n");
  file(`userId,unit,remaining,ref\n${rows}\n`);
  const dry = await finished(start([...command, "--dry-run"], env));
  expect(dry).toMatchObject({ code: 0 });
  const granted = thousands * 1_000;
  expect(JSON.parse(dry.out)).toMatchObject({ granted, refused: 0, sums: { Tokens: `${granted}` } });
}, 240_000);

const LITELLM = `{
    "sample_spec": { "input_cost_per_token": 0.0, "output_cost_per_token": 0.0 },
    "swift-1": { "input_cost_per_token": 1.25e-06, "output_cost_per_token": 1e-05, "cache_read_input_token_cost": 1.25e-07,
      "input_cost_per_token_above_200k_tokens": 2.5e-06, "output_cost_per_token_above_200k_tokens": 1.5e-05,
      "output_cost_per_reasoning_token": 1e-05, "search_context_cost_per_query": { "low": 0.01 }, "mode": "chat" },
    "swift-free": { "input_cost_per_token": 0, "output_cost_per_token": 0 },
    "slow-1": { "input_cost_per_token": 1, "output_cost_per_token": 1 }
  }`;
const MODELS_DEV = `{ "acme": { "id": "acme", "models": { "owl": { "id": "owl", "cost": {
    "input": 3, "output": 15, "cache_read": 0.3, "cache_write": 3.75, "reasoning": 15,
    "tiers": [{ "input": 12, "output": 22.5, "tier": { "type": "context", "size": 600000 } },
      { "input": 6, "output": 18, "tier": { "type": "context", "size": 200000 } }] } },
    "map": { "id": "map", "cost": { "input": 0.02, "output": 0 } } } },
    "resold": { "models": { "owl": { "cost": { "input": 9, "output": 9 } } } } }`;
const prices = (source: string, ...more: readonly string[]) => {
  writeFileSync(join(folder, "list.json"), source);
  return purser(["prices", "import", "list.json", "--json", ...more]);
};
const config = () => JSON.parse(readFileSync(join(folder, "purser.config.json"), "utf8"));

it("purser prices import writes LiteLLM's prices with a markup and the larger prompts first, and names what it does not map", async () => {
  write({ prices: { rules: [{ model: "own", unit: "cents", perEvent: 3 }] } });
  const made = await prices(
    LITELLM,
    "--from",
    "litellm",
    "--models",
    "swift-*",
    "none-*",
    "--markup",
    "1.3",
    "--unit",
    "cents",
  );
  expect(made.code).toBe(0);
  const { imported, problems } = JSON.parse(made.out);
  expect(imported).toEqual(["swift-1"]);
  expect(problems).toEqual([
    expect.stringContaining("none-*"),
    expect.stringContaining("swift-1: search_context_cost_per_query not mapped"),
    expect.stringContaining("swift-free: not imported"),
  ]);
  const units = 1_000_000;
  const rules = [
    {
      unit: "cents",
      model: "swift-1",
      when: { meters: ["input", "cacheRead"], above: 200_000 },
      per: { input: { amount: 325, units }, output: { amount: 1_950, units }, cacheRead: { amount: 16.25, units } },
    },
    {
      unit: "cents",
      model: "swift-1",
      per: { input: { amount: 162.5, units }, output: { amount: 1_300, units }, cacheRead: { amount: 16.25, units } },
    },
    { model: "own", unit: "cents", perEvent: 3 },
  ];
  expect(config().prices.rules).toEqual(rules);
  expect(config().prices.costs[1]).toEqual({
    model: "swift-1",
    per: { input: { amount: 125, units }, output: { amount: 1_000, units }, cacheRead: { amount: 12.5, units } },
  });
  // A second time it changes nothing.
  const before = readFileSync(join(folder, "purser.config.json"), "utf8");
  await prices(LITELLM, "--from", "litellm", "--models", "swift-1", "--markup", "1.3");
  expect(readFileSync(join(folder, "purser.config.json"), "utf8")).toBe(before);
});

it("purser prices import writes models.dev's prices in credits, which Purser accepts and applies", async () => {
  const made = await prices(
    MODELS_DEV,
    "--from",
    "models.dev",
    "--models",
    "acme/*",
    "--unit",
    "count",
    "--per-cent",
    "10",
  );
  const problems = [expect.stringMatching(/^acme\/map: output not mapped/)];
  expect(JSON.parse(made.out)).toMatchObject({ imported: ["acme/owl", "acme/map"], problems });
  const { appId, keys } = await server.makeApp();
  const pushed = await purser(["push", "--app", appId, "--mode", "live", "--yes"]);
  expect(pushed).toMatchObject({ code: 0, err: "" });
  const client = new Purser({ url: server.url, key: keys.sk_live });
  const price = (input: number) =>
    client.previewPrice({ event: "chat", model: "owl", meters: { input, output: 1_000_000 } });
  expect((await price(1_000)).quantities).toEqual({ count: 15_003 });
  expect((await price(300_000)).quantities).toEqual({ count: 19_800 });
  expect((await price(1_000_000)).quantities).toEqual({ count: 34_500 });
  // An embedding has no output. Output that the list does not price is rejected, never free.
  const embed = (output: number) =>
    client.previewPrice({ event: "embed", model: "map", meters: { input: 1_000_000, output } });
  expect((await embed(0)).quantities).toEqual({ count: 20 });
  await expect(embed(1)).rejects.toMatchObject({ code: "price_not_found" });
});

it("purser prices import writes nothing when the list would be too long for Purser", async () => {
  const models = Array.from({ length: 2_001 }, (_, at) => [`m${at}`, { input_cost_per_token: 1e-6 }]);
  const made = await prices(JSON.stringify(Object.fromEntries(models)), "--from", "litellm", "--models", "*");
  expect(made).toMatchObject({ code: 1, err: expect.stringContaining("#/prices/rules: Array has too many items") });
  expect(existsSync(join(folder, "purser.config.json"))).toBe(false);
});

it("purser prices import refuses a model that two providers have at two prices", async () => {
  const made = await prices(MODELS_DEV, "--from", "models.dev", "--models", "*/owl");
  expect(JSON.parse(made.out)).toMatchObject({
    imported: ["acme/owl"],
    problems: [expect.stringContaining("resold/owl: not imported")],
  });
});

it("runs from its package in an empty folder, without other packages", async () => {
  const run = promisify(execFile);
  await run("npm", ["pack", "--workspace", "clients/cli", "--pack-destination", folder], { cwd: root });
  writeFileSync(join(folder, "package.json"), "{}");
  await run("npm", ["install", "--offline", "--no-audit", "--no-fund", "./purser-cli-0.3.0.tgz"], { cwd: folder });
  const { appId } = await server.makeApp();
  const env = { ...process.env, PURSER_URL: server.url, PURSER_ADMIN_KEY: ADMIN_TOKEN };
  const { stdout } = await run("npx", ["--offline", "purser", "pull", "--app", appId, "--mode", "live"], {
    cwd: folder,
    env,
  });
  expect(stdout).toContain("Wrote the live settings");
  const { $schema } = JSON.parse(readFileSync(join(folder, "purser.config.json"), "utf8"));
  expect(existsSync(join(folder, $schema))).toBe(true);
});

import { execFile } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { gzipSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { PurserAdmin } from "../../clients/typescript/src/admin.ts";
import { END_USER_SECRET, END_USER_SETTING } from "../support/end-user-setting.ts";
import { ADMIN_TOKEN, STARTER_ITEMS, sharedServer } from "./support/server.ts";

const run = promisify(execFile);
const root = join(import.meta.dirname, "../..");
const bin = (name: string) => join(root, "node_modules/.bin", name);

const PACKAGES = [
  ["purser-client", "clients/typescript", "node16"],
  ["purser-balance", "clients/balance", "esm-only"],
  ["purser-react", "clients/react", "esm-only"],
  ["purser-ai-sdk", "clients/ai-sdk", "esm-only"],
] as const;

describe("the packages, as they would be published", () => {
  const directory = mkdtempSync(join(tmpdir(), "purser-packages-"));
  const fileOf = (name: string): string => {
    const file = readdirSync(directory).find((one) => one.startsWith(`${name}-`));
    if (file === undefined) throw new Error(`${name} was not packed.`);
    return join(directory, file);
  };
  let before = "";
  const tree = async () => (await run("git", ["status", "--porcelain"], { cwd: root })).stdout;
  beforeAll(async () => {
    before = await tree();
    const workspaces = PACKAGES.flatMap(([, workspace]) => ["--workspace", workspace]);
    await run("npm", ["pack", ...workspaces, "--pack-destination", directory], { cwd: root });
  });
  afterAll(() => rmSync(directory, { recursive: true, force: true }));

  it("leave no file in the checkout", async () => expect(await tree()).toBe(before));

  it.each(PACKAGES)(
    "%s contains all that its manifest names, with types that match its modules",
    async (name, _, profile) => {
      const { stdout } = await run(bin("publint"), ["--strict", fileOf(name)], { cwd: root });
      expect(stdout).toContain("All good!");
      await run(bin("attw"), [fileOf(name), "--profile", profile], { cwd: root });
    },
  );

  it("purser-client has one PurserError class in all its modules, by import and by require", async () => {
    const text = `
      const { PurserError } = require("purser-client");
      const { PurserAdmin } = require("purser-client/admin");
      const admin = new PurserAdmin({ url: "http://127.0.0.1:9", key: "administrator", retries: 0 });
      admin.listApps().catch((error) => console.log(error instanceof PurserError, error.code));`;
    const asModule = text.replace(/const (\{ \w+ \}) = require\((.*?)\);/g, "import $1 from $2;");
    const folder = join(root, "clients/typescript");
    for (const args of [
      ["--input-type=commonjs", "-e", text],
      ["--input-type=module", "-e", asModule],
    ]) {
      expect((await run(process.execPath, args, { cwd: folder })).stdout).toBe("true no_answer\n");
    }
  });

  it.each(["ai-sdk", "react"])("purser-%s recognises the errors of the purser-client that is installed", (name) => {
    const code = readFileSync(join(root, `clients/${name}/dist/index.js`), "utf8");
    expect(code).toContain(' from "purser-client"');
    expect(code).not.toContain("class extends Error");
  });

  it("the example of purser-ai-sdk's README compiles with what was packed", async () => {
    const examples = join(root, "clients/ai-sdk/.examples");
    rmSync(examples, { recursive: true, force: true });
    mkdirSync(examples);
    const readme = readFileSync(join(root, "clients/ai-sdk/README.md"), "utf8");
    const blocks = [...readme.matchAll(/^```ts\n([\s\S]*?)^```$/gm)].map(([, code]) => code);
    expect(blocks).toHaveLength(1);
    const ending = 'declare const yourModel: Exclude<import("ai").LanguageModel, string>;';
    writeFileSync(join(examples, "readme.ts"), `${blocks[0]}${ending}`);
    const options = { module: "NodeNext", target: "ES2022", types: ["node"], strict: true, noEmit: true };
    const compilerOptions = { ...options, skipLibCheck: true, exactOptionalPropertyTypes: true };
    writeFileSync(join(examples, "tsconfig.json"), JSON.stringify({ compilerOptions, include: ["*.ts"] }));
    await run("tsc", ["--project", examples]);
  });

  it("purser-client is below 10 KiB compressed, without dependencies, and its README's examples compile and run", async () => {
    const server = await sharedServer();
    const app = await server.makeApp(END_USER_SETTING);
    const admin = new PurserAdmin({ url: server.url, key: ADMIN_TOKEN });
    await admin.createPack({ appId: app.appId, packName: "Starter", items: STARTER_ITEMS });
    // `npm pack` has built it.
    const client = join(root, "clients/typescript");
    expect(gzipSync(readFileSync(join(client, "dist/index.js"))).length).toBeLessThan(10 * 1_024);
    const manifest = JSON.parse(readFileSync(join(client, "package.json"), "utf8"));
    expect(Object.keys(manifest)).not.toContain("dependencies");

    const examples = join(client, ".examples");
    rmSync(examples, { recursive: true, force: true });
    mkdirSync(examples);
    const blocks = [...readFileSync(join(client, "README.md"), "utf8").matchAll(/^```ts\n([\s\S]*?)^```$/gm)];
    const ending = `
declare const yourSignIn: { getToken(): Promise<string> };
async function* yourModel(_prompt: string) { yield* ["A ", "ship ", "is ", "a ", "town."]; }
const refused = await receive(new Request("https://shop.example", { method: "POST" }));
console.log(JSON.stringify({ credits: credits.length, debits, uncovered, reasons, result, usage, mine: mine.credits.length, refused: refused.status }));`;
    writeFileSync(join(examples, "readme.ts"), blocks.map(([, code]) => code).join("\n") + ending);
    const sign = `import { userToken } from ${JSON.stringify(join(client, "../../scripts/seed.mjs"))};
globalThis.yourSignIn = { getToken: () => userToken(${JSON.stringify(END_USER_SECRET)}, "user_grace") };`;
    writeFileSync(join(examples, "sign-in.mjs"), sign);
    const options = {
      module: "NodeNext",
      lib: ["ES2023", "DOM"],
      types: ["node"],
      strict: true,
      noEmit: true,
      skipDefaultLibCheck: true,
      exactOptionalPropertyTypes: true,
    };
    writeFileSync(join(examples, "tsconfig.json"), JSON.stringify({ compilerOptions: options, include: ["*.ts"] }));
    // The newest compiler and TypeScript 5 also check the package's own declarations.
    const tsc5 = join(client, "../../tools/generated-client/node_modules/typescript/bin/tsc");
    await run("tsc", ["--project", examples]);
    await run(process.execPath, [tsc5, "--project", examples]);

    const env = {
      ...process.env,
      PURSER_URL: server.url,
      PURSER_KEY: app.keys.sk_live,
      PURSER_PUBLISHABLE_KEY: app.keys.pk_live,
      PURSER_ADMIN_TOKEN: ADMIN_TOKEN,
    };
    const { stdout } = await run(
      process.execPath,
      ["--import", join(examples, "sign-in.mjs"), join(examples, "readme.ts")],
      { env },
    );
    expect(JSON.parse(stdout)).toMatchObject({
      credits: 2,
      debits: [{ unit: "tokens", amount: 1_200, remaining: 98_800 }],
      uncovered: 89_500,
      reasons: ["event_committed", "grant", "grant"],
      result: "A ship is a town.",
      usage: { debits: [{ amount: 5, remaining: 98_795 }], uncovered: null },
      mine: 2,
      refused: 400,
    });
  }, 120_000);
});

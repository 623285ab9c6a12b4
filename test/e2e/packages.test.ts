import { execFile } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

const run = promisify(execFile);
const root = join(import.meta.dirname, "../..");
const bin = (name: string) => join(root, "node_modules/.bin", name);

const PACKAGES = [
  ["purser-client", "clients/typescript", "node16"],
  ["purser-balance", "clients/balance", "esm-only"],
  ["purser-react", "clients/react", "esm-only"],
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
    for (const [, workspace] of PACKAGES) {
      await run("npm", ["pack", "--workspace", workspace, "--pack-destination", directory], { cwd: root });
    }
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
});

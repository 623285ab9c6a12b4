import { execFile } from "node:child_process";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { PurserAdmin } from "../../clients/typescript/src/admin.ts";
import { userToken } from "../../scripts/seed.mjs";
import { END_USER_SECRET, END_USER_SETTING } from "../support/end-user-setting.ts";
import { python, withoutPython } from "./support/runtimes.ts";
import { ADMIN_TOKEN, type Server, STARTER_ITEMS, sharedServer } from "./support/server.ts";

const PACKAGE = join(import.meta.dirname, "../../clients/python");

/** Returns what pytest needs to know of a new application. */
async function settingsOf(server: Server): Promise<Record<string, string>> {
  const { appId, keys } = await server.makeApp(END_USER_SETTING);
  const admin = new PurserAdmin({ url: server.url, key: ADMIN_TOKEN });
  await admin.createPack({ appId, packName: "Tokens", items: [], unit: "tokens" });
  await admin.createPack({ appId, packName: "Starter", items: STARTER_ITEMS });
  const limit = { name: "Limited", matches: [{ event: "limited" }], unit: "count", amount: 3, every: "month" } as const;
  const { limitId } = await admin.createUsageLimit({ appId, mode: "live", ...limit });
  const rules = [{ event: "priced", unit: "tokens", per: { input: 1, output: 4 } } as const];
  await admin.setPrices({ appId, mode: "live", rules });
  return {
    PURSER_URL: server.url,
    PURSER_KEY: keys.sk_live,
    PURSER_PUBLISHABLE_KEY: keys.pk_live,
    PURSER_USER_TOKEN: await userToken(END_USER_SECRET, "python-user"),
    PURSER_LIMIT_ID: limitId,
  };
}

describe.skipIf(python === undefined)(`the Python client${withoutPython}`, () => {
  it("passes its own tests against the built Worker", async () => {
    const settings = await settingsOf(await sharedServer());
    // start.test.ts runs the examples of README against what `npm start` serves.
    const args = [
      "-m",
      "pytest",
      "-q",
      "-p",
      "no:cacheprovider",
      "--ignore=tests/test_readme.py",
      ...(process.env.PYTEST_ARGS ?? "").split(" "),
    ];
    const { code, output } = await new Promise<{ code: number | null; output: string }>((resolve) => {
      // The types of Workers also add the Worker's variables to `env`.
      const env = { ...process.env, ...settings, PYTHONDONTWRITEBYTECODE: "1" } as NodeJS.ProcessEnv;
      const child = execFile(
        python ?? "",
        args.filter((each) => each !== ""),
        { cwd: PACKAGE, env, maxBuffer: 2 ** 26 },
        (_error, stdout, stderr) => resolve({ code: child.exitCode, output: stdout + stderr }),
      );
      onTestFinished(() => void child.kill());
    });
    expect(code, output).toBe(0);
  }, 300_000);
});

import { spawn } from "node:child_process";
import { describe, expect, it, onTestFinished } from "vitest";
import { freePort } from "./support/free-port.ts";
import { node20 } from "./support/runtimes.ts";

/** Runs an example until the test ends. Resolves with its first output, or with its failure. */
function start(name: string, env: Readonly<Record<string, string>>): Promise<string> {
  // The types of Workers also add the Worker's variables to `env`.
  const child = spawn(node20.command ?? "", [`examples/${name}.mjs`], { env: env as NodeJS.ProcessEnv });
  onTestFinished(() => void child.kill());
  return new Promise((resolve) => {
    let output = "";
    child.stdout.once("data", (chunk) => resolve(String(chunk)));
    child.stderr.on("data", (chunk) => {
      output += chunk;
    });
    child.once("exit", (code) => resolve(`ended with ${code}: ${output}`));
  });
}

const settings = {
  PURSER_URL: "http://127.0.0.1:9",
  PURSER_SECRET_KEY: "sk_live_x",
  WEBHOOK_SECRET: "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
};

describe.skipIf(node20.command === null)(`the examples on Node 20${node20.without}`, () => {
  for (const [name, status] of [
    ["ai-chat", 400],
    ["payments-webhook", 400],
    ["webhook-receiver", 400],
  ] as const) {
    it(`${name}.mjs prints its address, and answers there`, async () => {
      const PORT = String(await freePort());
      expect(await start(name, { ...settings, PORT })).toContain(`http://localhost:${PORT}`);
      const answer = await fetch(`http://localhost:${PORT}`, { method: "POST", body: "{}" });
      expect(answer.status).toBe(status);
    });

    it(`${name}.mjs prints the settings that it lacks`, async () => {
      expect(await start(name, {})).toMatch(/ended with 1: [\s\S]*Set [A-Z_, and]+\./);
    });
  }
});

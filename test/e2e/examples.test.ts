import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { connect } from "node:net";
import { Webhook } from "standardwebhooks";
import { describe, expect, it, onTestFinished } from "vitest";
import { freePort } from "./support/free-port.ts";
import { node20 } from "./support/runtimes.ts";

/** Runs a program until the test ends. Resolves with its first output, or with its failure. */
function start(args: readonly string[], env: Readonly<Record<string, string>>): Promise<string> {
  // The types of Workers also add the Worker's variables to `env`.
  const child = spawn(node20.command ?? "", args, { env: env as NodeJS.ProcessEnv });
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

/** Begins a request, and leaves before its body ends. */
function leaveHalfway(port: string): Promise<void> {
  return new Promise((resolve) => {
    const socket = connect(Number(port), "localhost", () => {
      socket.write("POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n\r\n{");
      setTimeout(() => socket.destroy(), 50);
    });
    // A program that the loss ends, ends within this time.
    socket.once("close", () => setTimeout(resolve, 200));
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
    it(`${name}.mjs prints its address, and answers there, also after a sender who left`, async () => {
      const PORT = String(await freePort());
      expect(await start([`examples/${name}.mjs`], { ...settings, PORT })).toContain(`http://localhost:${PORT}`);
      await leaveHalfway(PORT);
      const answer = await fetch(`http://localhost:${PORT}`, { method: "POST", body: "{}" });
      expect(answer.status).toBe(status);
    });

    it(`${name}.mjs prints the settings that it lacks`, async () => {
      expect(await start([`examples/${name}.mjs`], {})).toMatch(/ended with 1: [\s\S]*Set [A-Z_, and]+\./);
    });
  }

  it("the receiver of docs/webhooks.md answers a forged message and a failure of its own work, also after a sender who left", async () => {
    const PORT = String(await freePort());
    const [, code = ""] = /^```js\n([\s\S]*?)^```$/m.exec(readFileSync("docs/webhooks.md", "utf8")) ?? [];
    const program = `${code.replace("listen(4100)", `listen(${PORT}, () => console.log("listens"))`)}
const remind = async () => Promise.reject(new Error("The mail does not work now."));`;
    expect(program).toContain(PORT);
    expect(await start(["--input-type=module", "-e", program], settings)).toContain("listens");
    await leaveHalfway(PORT);
    const send = async (headers: Readonly<Record<string, string>>, body: string) =>
      (await fetch(`http://localhost:${PORT}`, { method: "POST", headers, body })).status;
    expect(await send({}, "{}")).toBe(400);
    const body = JSON.stringify({ id: "msg_1", type: "credits.low", data: { userId: "ada", remaining: 1 } });
    const seconds = Math.floor(Date.now() / 1_000);
    const signature = new Webhook(settings.WEBHOOK_SECRET).sign("msg_1", new Date(seconds * 1_000), body);
    const headers = { "webhook-id": "msg_1", "webhook-timestamp": `${seconds}`, "webhook-signature": signature };
    expect(await send(headers, body)).toBe(500);
    expect(await send(headers, body.replace("credits.low", "credits.granted"))).toBe(400);
  });
});

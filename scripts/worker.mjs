import { spawn } from "node:child_process";
import { mkdirSync, openSync, readFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";

const WRANGLER = join(import.meta.dirname, "../node_modules/wrangler/bin/wrangler.js");
const LOG = ".purser/server.log";

/** Nothing is asked of the network, and nothing of the person at the terminal. */
const calm = {
  ...process.env,
  CI: "1",
  WRANGLER_SEND_METRICS: "false",
  WRANGLER_HIDE_BANNER: "true",
  CLOUDFLARE_CF_FETCH_ENABLED: "false",
};

function wrangler(args, stdio) {
  return spawn(process.execPath, [WRANGLER, ...args], { env: calm, stdio });
}

function listens(port, host) {
  return new Promise((resolve, reject) => {
    const probe = createServer();
    probe.once("error", (error) => (error.code === "EADDRINUSE" ? resolve(false) : reject(error)));
    probe.listen({ port, host }, () => probe.close(() => resolve(true)));
  });
}

/** Throws when something listens on the port already. */
export async function assertPortFree(port) {
  if (await listens(port, "127.0.0.1")) return;
  throw new Error(`Port ${port} is in use. Stop what listens there, or choose another: PORT=8788 npm start`);
}

/** Brings the local database to the newest migration; keeps what it holds. */
export function migrate() {
  return new Promise((resolve, reject) => {
    const child = wrangler(["d1", "migrations", "apply", "purser", "--local"], ["ignore", "pipe", "pipe"]);
    let said = "";
    child.stdout.on("data", (chunk) => (said += chunk));
    child.stderr.on("data", (chunk) => (said += chunk));
    child.once("error", reject);
    child.once("exit", (code) =>
      code === 0 ? resolve() : reject(new Error(`The local database could not be migrated:\n${said}`)),
    );
  });
}

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

async function answersHealth(url) {
  try {
    return (await fetch(`${url}/health`)).ok;
  } catch {
    return false;
  }
}

/** Serves the Worker on the port; resolves once it answers. What it says goes to `.purser/server.log`. */
export async function serve(port) {
  mkdirSync(".purser", { recursive: true });
  const log = openSync(LOG, "w");
  const args = ["dev", "--port", String(port), "--ip", "localhost", "--show-interactive-dev-session=false"];
  const child = wrangler(args, ["ignore", log, log]);
  let ended = null;
  child.once("exit", (code) => {
    ended = code ?? 1;
  });
  const url = `http://localhost:${port}`;
  for (let tries = 0; tries < 600; tries++) {
    if (ended !== null) throw new Error(`The Worker did not start:\n${readFileSync(LOG, "utf8")}`);
    if (await answersHealth(url)) return { url, child, log: LOG };
    await pause(100);
  }
  child.kill();
  throw new Error(`The Worker did not answer within a minute; ${LOG} has what it said.`);
}

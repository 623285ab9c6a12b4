import { spawn } from "node:child_process";
import { rmSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { openLog } from "./log.mjs";

const WRANGLER = join(import.meta.dirname, "../node_modules/wrangler/bin/wrangler.js");
/** Where an earlier version let Wrangler keep a trace of each request, download tokens included. */
const TRACES = ".wrangler/state/v3/observability";
const START_SECONDS_MAX = 120;

/** No requests to the network, no questions in the terminal, and no files outside of this directory. */
const calm = {
  ...process.env,
  CI: "1",
  NO_COLOR: "1",
  FORCE_COLOR: "0",
  WRANGLER_SEND_METRICS: "false",
  WRANGLER_SEND_ERROR_REPORTS: "false",
  WRANGLER_HIDE_BANNER: "true",
  WRANGLER_WRITE_LOGS: "false",
  // Otherwise Wrangler keeps whole URLs of requests, download tokens included, beside the database.
  X_LOCAL_OBSERVABILITY: "false",
  WRANGLER_REGISTRY_PATH: ".wrangler/registry",
  CLOUDFLARE_CF_FETCH_ENABLED: "false",
};

const running = new Set();

/** In a process group of its own, so that all that it started can be ended with it. */
function wrangler(args) {
  const options = { env: calm, stdio: ["ignore", "pipe", "pipe"], detached: true };
  const child = spawn(process.execPath, [WRANGLER, ...args], options);
  running.add(child);
  child.once("exit", () => {
    running.delete(child);
    signalGroup(child, "SIGKILL");
  });
  return child;
}

/** Does nothing when the whole group has ended. */
function signalGroup({ pid }, signal) {
  try {
    process.kill(-pid, signal);
  } catch (error) {
    if (error.code !== "ESRCH") throw error;
  }
}

/** Stops Wrangler, and resolves when it has ended. */
export async function stopAll() {
  const gone = [...running].map((child) => new Promise((resolve) => child.once("exit", resolve)));
  for (const child of running) child.kill("SIGTERM");
  await Promise.all(gone);
}

function isFree(port, host) {
  return new Promise((resolve, reject) => {
    const probe = createServer();
    probe.once("error", ({ code, message }) => {
      if (code === "EADDRINUSE") resolve(false);
      else if (code === "EAFNOSUPPORT" || code === "EADDRNOTAVAIL") resolve(true);
      else reject(new Error(`Port ${port} cannot be listened on: ${message}`));
    });
    probe.listen({ port, host }, () => probe.close(() => resolve(true)));
  });
}

/** Throws if the port is in use on either loopback address, because `localhost` may mean both. */
export async function assertPortFree(port) {
  if ((await isFree(port, "127.0.0.1")) && (await isFree(port, "::1"))) return;
  const another = port < 65_535 ? port + 1 : port - 1;
  throw new Error(`Port ${port} is in use. Stop what listens there, or choose another: PORT=${another} npm start`);
}

/** Brings the local databases to the newest migration; keeps what they hold. */
export async function migrate({ file, databases }) {
  // One after another: each would make the directory of the state.
  for (const binding of databases) await migrateOne(file, binding);
}

function migrateOne(file, binding) {
  return new Promise((resolve, reject) => {
    const child = wrangler(["d1", "migrations", "apply", binding, "--local", "--config", file]);
    let said = "";
    for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk) => (said += chunk));
    child.once("error", reject);
    child.once("exit", (code) =>
      code === 0 ? resolve() : reject(new Error(`The local database ${binding} could not be migrated:\n${said}`)),
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

/** Serves the Worker on the port; resolves once it answers. What it says goes to the log. */
export async function serve(port, file = "wrangler.toml") {
  rmSync(TRACES, { recursive: true, force: true });
  // Port 0 lets two Pursers run at once; otherwise both would want the inspector's usual port.
  // The deployed bundle, not minified, so that the places in the log have their names.
  const args = [
    "dev",
    "--minify=false",
    "--config",
    file,
    "--var",
    "BEHIND_CLOUDFLARE:false",
    "--ip",
    "127.0.0.1",
    "--port",
    String(port),
    "--inspector-port",
    "0",
  ];
  const child = wrangler([...args, "--show-interactive-dev-session=false"]);
  const log = openLog(child);
  let hasEnded = false;
  child.once("exit", () => {
    hasEnded = true;
  });
  const url = `http://localhost:${port}`;
  const deadline = Date.now() + START_SECONDS_MAX * 1_000;
  while (Date.now() < deadline) {
    if (hasEnded) throw new Error(`The Worker did not start:\n${log.text()}`);
    if (await answersHealth(url)) return { url, child, log: log.file };
    await pause(100);
  }
  throw new Error(`The Worker did not answer within ${START_SECONDS_MAX} seconds; ${log.file} has what it said.`);
}

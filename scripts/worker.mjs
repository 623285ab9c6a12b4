/** Wrangler as `npm start` runs it: the local databases, the server and its log. */
import { spawn } from "node:child_process";
import { appendFileSync, existsSync, mkdirSync, readFileSync, renameSync, rmSync, statSync } from "node:fs";
import { createServer } from "node:net";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { stripVTControlCharacters } from "node:util";
import { yellow } from "./terminal.mjs";

const WRANGLER = join(import.meta.dirname, "../node_modules/wrangler/bin/wrangler.js");
/** Earlier versions let Wrangler store a trace of each request here, with download tokens. */
const TRACES = ".wrangler/state/v3/observability";
const START_SECONDS_MAX = 120;

const LOG = ".purser/server.log";
/** A larger log is renamed to `server.log.1`. */
const LOG_BYTES_MAX = 10 * 1024 * 1024;

/** A line for a request. Its path may name a user or a key. */
const REQUEST = /^\[wrangler:info\] [A-Z]+ \//;
/** A query string may have a download token. */
const QUERY = /(\/[^\s?"'`]*)\?[^\s"'`]*/g;

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
  // Otherwise Wrangler stores the whole URL of each request, with download tokens, beside the database.
  X_LOCAL_OBSERVABILITY: "false",
  WRANGLER_REGISTRY_PATH: ".wrangler/registry",
  CLOUDFLARE_CF_FETCH_ENABLED: "false",
};

const running = new Set();

/** Starts Wrangler in its own process group, so that all of its child processes can be ended with it. */
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
  const exits = [...running].map((child) => new Promise((resolve) => child.once("exit", resolve)));
  for (const child of running) child.kill("SIGTERM");
  await Promise.all(exits);
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
  throw new Error(
    `Port ${port} is in use. Stop the program that uses it, or choose another port: PORT=${another} npm start`,
  );
}

/** Applies the missing migrations to the local databases. Their data stay. */
export async function migrate({ file, databases }) {
  // One after another, because each run would create the directory of the state.
  for (const binding of databases) await migrateOne(file, binding);
}

function migrateOne(file, binding) {
  return new Promise((resolve, reject) => {
    const child = wrangler(["d1", "migrations", "apply", binding, "--local", "--config", file]);
    let output = "";
    for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk) => (output += chunk));
    child.once("error", reject);
    child.once("exit", (code) =>
      code === 0 ? resolve() : reject(new Error(`The local database ${binding} could not be migrated:\n${output}`)),
    );
  });
}

/** A line without query strings, as the log keeps it. Null for a line that the log must not keep. */
export function keptLine(line) {
  return REQUEST.test(line) ? null : line.replace(QUERY, "$1");
}

/** Appends a process's output to the log. Its errors are printed as well. */
export function openLog(child, file = LOG, bytesMax = LOG_BYTES_MAX) {
  const append = (text) => {
    if (existsSync(file) && statSync(file).size + text.length > bytesMax) renameSync(file, `${file}.1`);
    appendFileSync(file, text, { mode: 0o600 });
  };
  mkdirSync(dirname(file), { recursive: true });
  append("");
  const startBytes = statSync(file).size;
  for (const stream of [child.stdout, child.stderr]) {
    createInterface({ input: stream }).on("line", (coloured) => {
      const line = keptLine(stripVTControlCharacters(coloured));
      if (line === null) return;
      append(`${line}\n`);
      if (/\[ERROR\]|"level":"error"|^Uncaught /.test(line)) console.error(yellow(line));
    });
  }
  /** The output of this process. */
  const text = () => readFileSync(file).subarray(startBytes).toString("utf8");
  return { file, text };
}

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

async function answersHealth(url) {
  try {
    return (await fetch(`${url}/health`)).ok;
  } catch {
    return false;
  }
}

/** Serves the Worker on the port, or another script with its settings. Resolves when it answers. Its output goes to the log. */
export async function serve(port, file = "wrangler.toml", script) {
  rmSync(TRACES, { recursive: true, force: true });
  // With port 0 two Pursers can run at once. Otherwise both would use the inspector's default port.
  // The bundle is not minified, so that stack traces in the log have the names of functions.
  const args = [
    "dev",
    ...(script === undefined ? [] : [script]),
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
  throw new Error(`The Worker did not answer within ${START_SECONDS_MAX} seconds. Its output is in ${log.file}.`);
}

/** Files that `npm start` keeps in this checkout: its secrets, the address of the server, and tasks that were interrupted. */
import { randomBytes } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";

const SECRETS = ".dev.vars";
/** The secrets of the Worker, with their minimum length. */
const NEEDED = { ADMIN_TOKEN: 32, ANALYTICS_EXPORT_SECRET: 16, SETTINGS_SECRET: 32, ERASURE_SECRET: 32 };
const RUNNING = ".purser/running.json";

/** The JSON value of a file. Null if there is no such file. */
export function readJson(file) {
  return existsSync(file) ? JSON.parse(readFileSync(file, "utf8")) : null;
}

/** Writes a value that only this machine's owner can read. The file is written whole or not at all. */
export function writeJson(file, value) {
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(`${file}.new`, `${JSON.stringify(value, null, 2)}\n`, { mode: 0o600 });
  renameSync(`${file}.new`, file);
}

/**
 * A task of several steps that can be interrupted and continued. `facts` are its initial values. `once` does a step, unless it
 * is recorded as done, and returns its result. A step may be interrupted before it is recorded, so it must be repeatable.
 */
export function openJournal(file, begin) {
  const open = readJson(file) ?? { facts: begin(), done: {} };
  writeJson(file, open);
  const once = async (step, work) => {
    if (!(step in open.done)) {
      open.done[step] = (await work()) ?? null;
      writeJson(file, open);
    }
    return open.done[step];
  };
  return { facts: open.facts, done: open.done, once, close: () => rmSync(file, { force: true }) };
}

/** Writes down the address of the server, so that `npm run demo` finds it at any port. */
export function rememberServer(url) {
  writeJson(RUNNING, { url, pid: process.pid });
}

/** Removes the address, unless a later server wrote it. */
export function forgetServer() {
  if (readJson(RUNNING)?.pid === process.pid) rmSync(RUNNING);
}

/** Returns the URL of the server: at `PORT` if it is set, otherwise of the newest server of this checkout. */
export function serverUrl() {
  const { PORT: port } = process.env;
  return port === undefined ? (readJson(RUNNING)?.url ?? "http://localhost:8787") : `http://localhost:${port}`;
}

/** Reads `NAME=value` lines. The last line of a name counts. Quotes around a value are removed. */
function parse(text) {
  const pairs = [...text.matchAll(/^[ \t]*(?:export[ \t]+)?(\w+)[ \t]*=[ \t]*(.*?)[ \t\r]*$/gm)];
  return Object.fromEntries(pairs.map(([, name, value]) => [name, value.replace(/^(["'`])(.*)\1$/, "$2")]));
}

/** The local secrets: those of `.dev.vars`, and random ones for those that are missing or empty. */
export function localSecrets() {
  const text = existsSync(SECRETS) ? readFileSync(SECRETS, "utf8") : "";
  const secrets = parse(text);
  let added = "";
  for (const [name, charactersMin] of Object.entries(NEEDED)) {
    const length = secrets[name]?.length ?? 0;
    if (length >= charactersMin) continue;
    if (length > 0) throw new Error(`${name} in ${SECRETS} is shorter than ${charactersMin} characters.`);
    secrets[name] = randomBytes(32).toString("hex");
    added += `${name}=${secrets[name]}\n`;
  }
  if (added === "") return secrets;
  writeFileSync(SECRETS, text + (text === "" || text.endsWith("\n") ? "" : "\n") + added, { mode: 0o600 });
  return secrets;
}

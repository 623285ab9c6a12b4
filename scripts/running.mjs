import { rmSync } from "node:fs";
import { readJson, writeJson } from "./journal.mjs";

const FILE = ".purser/running.json";

/** Notes where `npm start` serves, so that `npm run demo` finds it whatever its port. */
export function rememberServer(url) {
  writeJson(FILE, { url, pid: process.pid });
}

/** Removes the note, unless it is of another server that was started here since. */
export function forgetServer() {
  if (readJson(FILE)?.pid === process.pid) rmSync(FILE);
}

/** Where a server of this checkout is: what `PORT` says, else the newest one that was started here. */
export function serverUrl() {
  const { PORT: port } = process.env;
  return port === undefined ? (readJson(FILE)?.url ?? "http://localhost:8787") : `http://localhost:${port}`;
}

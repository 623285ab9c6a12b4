import { createWriteStream, existsSync, mkdirSync, readFileSync, renameSync, statSync } from "node:fs";
import { createInterface } from "node:readline";
import { stripVTControlCharacters } from "node:util";
import { yellow } from "./terminal.mjs";

const FILE = ".purser/server.log";
/** A log that is larger when the server starts is put aside as `server.log.1`, in place of the one before. */
const BYTES_MAX = 10 * 1024 * 1024;

/** A line for a request. Its path may name a user or a key. */
const REQUEST = /^\[wrangler:info\] [A-Z]+ \//;
/** A query string may have a download token. */
const QUERY = /(\/[^\s?"'`]*)\?[^\s"'`]*/g;

/** A line as it may be kept: without query strings. Null for a line that is not kept. */
export function keptLine(line) {
  return REQUEST.test(line) ? null : line.replace(QUERY, "$1");
}

/** Appends a process's output to the log. Its errors are printed as well. */
export function openLog(child) {
  mkdirSync(".purser", { recursive: true });
  if (existsSync(FILE) && statSync(FILE).size > BYTES_MAX) renameSync(FILE, `${FILE}.1`);
  const startBytes = existsSync(FILE) ? statSync(FILE).size : 0;
  const log = createWriteStream(FILE, { mode: 0o600, flags: "a" });
  for (const stream of [child.stdout, child.stderr]) {
    createInterface({ input: stream }).on("line", (coloured) => {
      const line = keptLine(stripVTControlCharacters(coloured));
      if (line === null) return;
      log.write(`${line}\n`);
      if (/\[ERROR\]|"level":"error"|^Uncaught /.test(line)) console.error(yellow(line));
    });
  }
  /** What this process said. */
  const text = () => readFileSync(FILE).subarray(startBytes).toString("utf8");
  return { file: FILE, text };
}

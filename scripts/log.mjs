import { appendFileSync, existsSync, mkdirSync, readFileSync, renameSync, statSync } from "node:fs";
import { dirname } from "node:path";
import { createInterface } from "node:readline";
import { stripVTControlCharacters } from "node:util";
import { yellow } from "./terminal.mjs";

const FILE = ".purser/server.log";
/** A log that has grown larger is put aside as `server.log.1`, in place of the one before. */
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
export function openLog(child, file = FILE, bytesMax = BYTES_MAX) {
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
  /** What this process said. */
  const text = () => readFileSync(file).subarray(startBytes).toString("utf8");
  return { file, text };
}

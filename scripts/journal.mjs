import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";

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

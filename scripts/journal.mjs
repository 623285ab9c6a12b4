import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";

/** What a file keeps as JSON; null when there is no such file. */
export function readJson(file) {
  return existsSync(file) ? JSON.parse(readFileSync(file, "utf8")) : null;
}

/** Keeps a value for this machine's owner alone. Whole, or not at all. */
export function writeJson(file, value) {
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(`${file}.new`, `${JSON.stringify(value, null, 2)}\n`, { mode: 0o600 });
  renameSync(`${file}.new`, file);
}

/**
 * A work of several steps that may be cut short at any of them, and then goes on where it was. `facts` are what it was
 * begun with; `once` does a step unless it is noted as done, and answers its result. A step may be cut short between
 * being done and being noted: so it looks for what it would make, or makes the same again.
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

import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";

/** Writes a whole file, unless it has this text already, because several builds may run at once. */
export function writeChanged(file, text) {
  if (existsSync(file) && readFileSync(file, "utf8") === text) return;
  mkdirSync(dirname(file), { recursive: true });
  const half = `${file}.${process.pid}.half`;
  writeFileSync(half, text);
  renameSync(half, file);
}

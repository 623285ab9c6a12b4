import { randomBytes } from "node:crypto";
import { existsSync, readFileSync, writeFileSync } from "node:fs";

const FILE = ".dev.vars";
const NEEDED = ["ADMIN_TOKEN", "ANALYTICS_EXPORT_SECRET"];

/** Reads `NAME=value` lines; quotes around a value are dropped. */
function parse(text) {
  const pairs = [...text.matchAll(/^\s*([A-Z_]+)\s*=\s*(.*?)\s*$/gm)];
  return Object.fromEntries(pairs.map(([, name, value]) => [name, value.replace(/^(["'])(.*)\1$/, "$2")]));
}

/** The secrets of this machine's Purser: those that `.dev.vars` has, and random ones for what it lacks. */
export function localSecrets() {
  const text = existsSync(FILE) ? readFileSync(FILE, "utf8") : "";
  const secrets = parse(text);
  const missing = NEEDED.filter((name) => !(name in secrets));
  if (missing.length === 0) return secrets;
  for (const name of missing) secrets[name] = randomBytes(32).toString("hex");
  const lines = missing.map((name) => `${name}=${secrets[name]}\n`);
  writeFileSync(FILE, text + (text === "" || text.endsWith("\n") ? "" : "\n") + lines.join(""), { mode: 0o600 });
  return secrets;
}

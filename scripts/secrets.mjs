import { randomBytes } from "node:crypto";
import { existsSync, readFileSync, writeFileSync } from "node:fs";

const FILE = ".dev.vars";
/** The secrets of the Worker, with their minimum length. */
const NEEDED = { ADMIN_TOKEN: 32, ANALYTICS_EXPORT_SECRET: 16, SETTINGS_SECRET: 32, ERASURE_SECRET: 32 };

/** Reads `NAME=value` lines. The last line of a name counts. Quotes around a value are removed. */
function parse(text) {
  const pairs = [...text.matchAll(/^[ \t]*(?:export[ \t]+)?(\w+)[ \t]*=[ \t]*(.*?)[ \t\r]*$/gm)];
  return Object.fromEntries(pairs.map(([, name, value]) => [name, value.replace(/^(["'`])(.*)\1$/, "$2")]));
}

/** The local secrets: those of `.dev.vars`, and random ones for those that are missing or empty. */
export function localSecrets() {
  const text = existsSync(FILE) ? readFileSync(FILE, "utf8") : "";
  const secrets = parse(text);
  let added = "";
  for (const [name, charactersMin] of Object.entries(NEEDED)) {
    const length = secrets[name]?.length ?? 0;
    if (length >= charactersMin) continue;
    if (length > 0) throw new Error(`${name} in ${FILE} is shorter than ${charactersMin} characters.`);
    secrets[name] = randomBytes(32).toString("hex");
    added += `${name}=${secrets[name]}\n`;
  }
  if (added === "") return secrets;
  writeFileSync(FILE, text + (text === "" || text.endsWith("\n") ? "" : "\n") + added, { mode: 0o600 });
  return secrets;
}

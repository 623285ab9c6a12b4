import { readFileSync, writeFileSync } from "node:fs";

const CONFIG = "wrangler.toml";
const LOCAL_CONFIG = "wrangler.local.toml";
const DATABASES_MAX = 10;

const nameOf = (index) => (index === 0 ? "DB" : `DB_${index}`);

/**
 * The bindings of the databases that a configuration names, as src/db/session.ts reads them. A named environment has its own
 * and no others.
 */
export function boundDatabases(text, environment = null) {
  const head = environment === null ? "[[d1_databases]]" : `[[env.${environment}.d1_databases]]`;
  const tables = text.split(/^(?=\[)/m).filter((table) => table.startsWith(head));
  const bindings = tables.map((table) => /^binding\s*=\s*["']([^"']*)["']/m.exec(table)?.[1]);
  return Array.from({ length: DATABASES_MAX }, (_, index) => nameOf(index)).filter((name) => bindings.includes(name));
}

/** The commands of Wrangler for a deployment, in order: every database is migrated before the Worker that needs it is uploaded. */
export function deploySteps(text, args = []) {
  const [, , environment = null] = /(^| )(?:--env|-e)[ =](\S+)/.exec(args.join(" ")) ?? [];
  const databases = boundDatabases(text, environment);
  if (databases.length === 0)
    throw new Error(`wrangler.toml binds no database${environment === null ? "" : ` in [env.${environment}]`}.`);
  const inEnvironment = environment === null ? [] : ["--env", environment];
  // Names the binding, because a database may have been renamed.
  const migrations = databases.map((binding) => ["d1", "migrations", "apply", binding, "--remote", ...inEnvironment]);
  return [...migrations, ["deploy", ...args]];
}

/** The number of databases that `DATABASES` sets. Default 1. */
export function databaseCount(text = process.env.DATABASES ?? "1") {
  const count = Number(text);
  if (/^\d+$/.test(text) && count >= 1 && count <= DATABASES_MAX) return count;
  throw new Error(`DATABASES must be a number from 1 to ${DATABASES_MAX}, not "${text}".`);
}

/** Returns the configuration with `count` bound databases. The added databases are only local. */
export function withDatabases(text, count) {
  const bound = boundDatabases(text);
  const missing = Array.from({ length: count }, (_, index) => index).filter((index) => !bound.includes(nameOf(index)));
  return missing.reduce(
    (config, index) => `${config.trimEnd()}

[[d1_databases]]
binding = "${nameOf(index)}"
database_name = "purser-${index}"
database_id = "00000000-0000-0000-0000-${String(index).padStart(12, "0")}"
migrations_dir = "drizzle"
`,
    text,
  );
}

/** Returns the configuration file of a local Purser with `count` databases, and their bindings. Writes a file if wrangler.toml binds fewer. */
export function localConfig(count) {
  const text = readFileSync(CONFIG, "utf8");
  const whole = withDatabases(text, count);
  if (whole === text) return { file: CONFIG, databases: boundDatabases(text) };
  writeFileSync(LOCAL_CONFIG, `# Written by npm start, from ${CONFIG}.\n${whole}`);
  return { file: LOCAL_CONFIG, databases: boundDatabases(whole) };
}

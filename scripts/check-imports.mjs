// Checks which module of `src` imports which, rejects a cycle of modules, and compares the list with docs/architecture.md.
import { globSync, readFileSync } from "node:fs";
import { basename, dirname, join, relative } from "node:path";

/** A module, and the modules right below it. It may import these and all that they see. */
const SEES = {
  lib: [],
  db: ["lib"],
  http: ["db"],
  auth: ["http"],
  "books/amounts": ["http"],
  catalog: ["auth", "books/amounts"],
  webhooks: ["catalog"],
  "books/prices": ["catalog"],
  "books/ledger": ["webhooks"],
  "books/credits": ["books/ledger"],
  "books/limits": ["books/ledger"],
  "books/statements": ["books/ledger"],
  "books/usage": ["books/limits", "books/prices"],
  "books/alerts": ["books/ledger"],
  "books/recurring": ["books/credits"],
  payments: ["books/credits"],
  people: ["webhooks"],
  exports: ["books/recurring", "books/usage", "people"],
  erasure: ["exports"],
  clocks: ["books/recurring", "books/usage", "books/alerts", "books/statements", "payments"],
  api: ["clocks", "erasure"],
  dashboard: ["api"],
  reference: ["api"],
  "cron.ts": ["dashboard"],
  "app.ts": ["dashboard", "reference"],
  "index.ts": ["app.ts", "cron.ts"],
};
/** Every module but `lib` may import these. */
const COMMON = ["errors.ts", "settings.ts", "runtime.ts"];
const SEES_OF_COMMON = { "errors.ts": [], "settings.ts": ["lib"], "runtime.ts": ["db", "settings.ts"] };
/** Files that may see Hono and its context. A verb never does, nor any file that it imports. */
const SEES_HONO = /^(http|api|dashboard|reference|(app|cron|index)\.ts)(\/|$)/;
/**
 * Files that may see zod: what is sent, and what is received from others. A verb takes types: a schema of a request or a response
 * belongs to its operation.
 */
const SEES_ZOD =
  /^(http|api|dashboard|reference)\/|-fields\.ts$|^(auth\/end-user-setting|webhooks\/message-data|exports\/create-link|people\/capture\/event)\.ts$|^payments\/(stripe-event|invoice|stripe-objects)\.ts$/;
/** The schemas of messages. A start of the Worker must not create them. */
const MESSAGES = "webhooks/message-data.ts";

const flaws = [];
const modules = { ...SEES, ...SEES_OF_COMMON };
const moduleOf = (file) =>
  file === "../package.json"
    ? "package.json"
    : (Object.keys(modules).find((module) => file === module || file.startsWith(`${module}/`)) ?? file.split("/")[0]);

const seen = new Map();
function allSeenBy(module, path = []) {
  if (path.includes(module)) flaws.push(`a cycle of modules: ${[...path, module].join(" > ")}`);
  if (path.includes(module) || seen.has(module)) return seen.get(module) ?? new Set();
  const all = new Set((modules[module] ?? []).flatMap((other) => [other, ...allSeenBy(other, [...path, module])]));
  seen.set(module, all);
  return all;
}

/** The files that each file needs when it runs, and `hono`. */
const importsOf = new Map();

/** Returns the shortest way by which a file needs Hono; null if it does not. */
function wayToHono(file) {
  const cameFrom = new Map([[file, null]]);
  for (const at of cameFrom.keys()) {
    if (at === "hono") {
      const way = [];
      for (let step = at; step !== null; step = cameFrom.get(step)) way.unshift(step);
      return way.join(" > ");
    }
    for (const next of importsOf.get(at) ?? []) if (!cameFrom.has(next)) cameFrom.set(next, at);
  }
  return null;
}

for (const path of globSync("src/**/*.{ts,tsx}", { exclude: ["src/env.d.ts"] }).sort()) {
  const file = relative("src", path);
  const module = moduleOf(file);
  const flaw = (text) => flaws.push(`${path}: ${text}`);
  if (modules[module] === undefined) flaw(`the module ${module} is not listed in scripts/check-imports.mjs`);
  importsOf.set(file, []);
  const imports = /^(?:import|export)( type)?[^;]*? from "([^"]+)"(?: with [^;]*)?;$/gms;
  const text = readFileSync(path, "utf8");
  // Also a type that only looks like Hono's context.
  if (!SEES_HONO.test(file) && /\breq\.(header|raw|query|param|path|method)\b|\breq: \{/.test(text)) {
    flaw("Hono's context belongs to `http` and `api`");
  }
  for (const [, type, from] of text.matchAll(imports)) {
    if (/^(@hono\/|hono($|\/))/.test(from)) {
      if (!type) importsOf.get(file).push("hono");
      else if (!SEES_HONO.test(file)) flaw("a type of Hono belongs to `http` and `api`");
    }
    if (from === "zod" && !SEES_ZOD.test(file)) flaw("a schema belongs to its operation, in `api`");
    if (!from.startsWith(".")) continue;
    const target = relative("src", join(dirname(path), from));
    if (!type) importsOf.get(file).push(target);
    if (!type && module !== "reference" && target === MESSAGES) {
      flaw(`${from} is not part of the Worker; import its types only`);
    }
    const other = moduleOf(target);
    if (other === module || (module !== "lib" && COMMON.includes(other))) continue;
    // The reference tells the version.
    if (module === "reference" && other === "package.json") continue;
    if (!allSeenBy(module).has(other)) flaw(`${module} may not import ${from}`);
    if (/\/routes\.tsx?$/.test(target) && module !== "app.ts") flaw(`${from} is for app.ts alone`);
  }
}

for (const [name, files] of Map.groupBy(importsOf.keys(), (file) => basename(file))) {
  if (files.length > 1) flaws.push(`several files have the name ${name}: ${files.join(", ")}`);
}

for (const file of importsOf.keys()) {
  const way = SEES_HONO.test(file) ? null : wayToHono(file);
  if (way !== null) flaws.push(`src/${file}: it may not see Hono: ${way}`);
}

const documented = /^### Imports$.*?^```$(.*?)^```$/ms.exec(readFileSync("docs/architecture.md", "utf8"))?.[1] ?? "";
const arrows = Object.entries(SEES).map(([module, others]) => `${module} ${others.join(" ") || "nothing"}`);
const lines = documented.split("\n").flatMap((line) => (line === "" ? [] : [line.replace(/ +/, " ")]));
for (const arrow of arrows) if (!lines.includes(arrow)) flaws.push(`docs/architecture.md lacks the import: ${arrow}`);
for (const line of lines)
  if (!arrows.includes(line)) flaws.push(`docs/architecture.md has an import too many: ${line}`);

if (flaws.length > 0) {
  console.error(flaws.join("\n"));
  process.exitCode = 1;
}

// Checks which room of `src` imports which. It refuses an import that is not listed, and a cycle of rooms.
import { globSync, readFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";

/** A room, and the rooms it may import. Every room but `lib` may import COMMON. docs/architecture.md draws it. */
const MAY_IMPORT = {
  lib: [],
  db: ["lib"],
  http: ["lib", "db"],
  amounts: ["lib", "db", "http"],
  audit: ["lib", "db", "http"],
  tombstones: ["lib", "db"],
  activity: ["lib", "db", "http", "amounts", "tombstones"],
  access: ["lib", "db", "http", "activity"],
  apps: ["lib", "db", "http", "audit", "access"],
  packs: ["lib", "db", "http", "amounts", "audit"],
  webhooks: ["lib", "db", "http", "amounts", "audit", "access", "apps"],
  ledger: ["lib", "db", "http", "activity", "amounts", "audit", "tombstones", "webhooks"],
  alerts: ["lib", "db", "http", "amounts", "audit", "access", "apps", "webhooks", "ledger"],
  credits: ["lib", "db", "http", "audit", "access", "activity", "amounts", "packs", "ledger"],
  usage: ["lib", "db", "http", "access", "activity", "amounts", "ledger"],
  limits: ["lib", "db", "http", "amounts", "audit", "access", "apps", "webhooks"],
  people: ["lib", "db", "http", "access", "tombstones", "limits"],
  capture: ["lib", "db", "http", "access", "activity", "tombstones", "limits", "people"],
  exports: ["lib", "db", "http", "access", "tombstones", "activity", "amounts", "webhooks", "ledger", "people"],
  erasure: ["lib", "db", "http", "access", "amounts", "audit", "tombstones", "webhooks", "ledger", "people"],
  payments: [
    "lib",
    "db",
    "http",
    "audit",
    "access",
    "activity",
    "tombstones",
    "apps",
    "amounts",
    "packs",
    "webhooks",
    "ledger",
    "credits",
  ],
  clocks: ["lib", "db", "http", "audit", "access", "apps", "alerts", "ledger", "usage", "payments"],
  admin: ["http", "audit", "access", "apps", "limits", "packs", "webhooks", "credits", "payments"],
  dashboard: [
    "lib",
    "http",
    "audit",
    "access",
    "activity",
    "amounts",
    "apps",
    "limits",
    "packs",
    "webhooks",
    "alerts",
    "ledger",
    "credits",
    "usage",
    "payments",
    "people",
    "exports",
    "erasure",
    "clocks",
    "clocks",
  ],
  reference: [
    "package.json",
    "lib",
    "http",
    "access",
    "amounts",
    "audit",
    "apps",
    "limits",
    "packs",
    "webhooks",
    "alerts",
    "ledger",
    "credits",
    "usage",
    "payments",
    "people",
    "exports",
    "erasure",
    "clocks",
  ],
  "scheduled.ts": ["lib", "db", "access", "capture", "alerts", "webhooks", "usage", "payments", "erasure", "clocks"],
  "app.ts": [
    "lib",
    "http",
    "access",
    "webhooks",
    "alerts",
    "admin",
    "credits",
    "usage",
    "payments",
    "people",
    "capture",
    "exports",
    "erasure",
    "clocks",
    "reference",
    "dashboard",
  ],
  "index.ts": ["activity", "app.ts", "scheduled.ts"],
  "runtime.ts": ["db", "settings.ts"],
  "errors.ts": [],
  "settings.ts": ["lib"],
};
const COMMON = ["errors.ts", "settings.ts", "runtime.ts"];
/** Files of a room that may see Hono; a verb never does. */
const SEES_HONO = /^(http|access|dashboard|reference|app\.ts)(\/|$)|\/routes\.tsx?$/;
/** Schemas of responses are for types, tests and the reference: no part of the Worker (docs/architecture.md). */
const IS_RESPONSES = /\/responses\.ts$/;
const MAY_RUN_RESPONSES = /^reference\/|\/responses\.ts$/;

const flaws = [];
const roomOf = (file) => (file === "../package.json" ? "package.json" : file.split("/")[0]);

for (const path of globSync("src/**/*.{ts,tsx}").sort()) {
  const file = relative("src", path);
  const room = roomOf(file);
  const flaw = (text) => flaws.push(`${path}: ${text}`);
  const allowed = MAY_IMPORT[room];
  if (allowed === undefined) flaw(`the room ${room} is not listed in scripts/check-imports.mjs`);
  for (const [, type, from] of readFileSync(path, "utf8").matchAll(
    /^(?:import|export)( type)?[^;]*? from "([^"]+)"(?: with [^;]*)?;$/gms,
  )) {
    if (/^(@hono\/|hono($|\/))/.test(from) && !type && !SEES_HONO.test(file)) flaw("a verb never sees Hono");
    if (/^zod\/|^@zod\//.test(from)) flaw('one zod: import * as z from "zod"');
    if (!from.startsWith(".")) continue;
    const target = relative("src", join(dirname(path), from));
    const other = roomOf(target);
    if (IS_RESPONSES.test(target) && !type && !MAY_RUN_RESPONSES.test(file)) flaw(`${from} is for types alone here`);
    if (other === room) continue;
    if (room !== "lib" && COMMON.includes(other)) continue;
    if (!allowed?.includes(other)) flaw(`${room} may not import ${from}`);
    if (/\/routes\.tsx?$/.test(target) && room !== "app.ts") flaw(`${from} is for app.ts alone`);
  }
}

// A room may import only rooms that are listed above it, so that there is no cycle.
const listed = Object.keys(MAY_IMPORT);
for (const [index, room] of listed.filter((name) => !name.includes(".")).entries()) {
  for (const other of MAY_IMPORT[room]) if (listed.indexOf(other) >= index) flaws.push(`${room} stands above ${other}`);
}

if (flaws.length > 0) {
  console.error(flaws.join("\n"));
  process.exitCode = 1;
}

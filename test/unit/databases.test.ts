import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { boundDatabases, databaseCount, deploySteps, withDatabases } from "../../scripts/databases.mjs";
import { allDatabases, databaseAt, idIn, parseDatabaseIndex } from "../../src/db/session.ts";
import { randomId } from "../../src/lib/ids.ts";

const config = readFileSync("wrangler.toml", "utf8");

it("a configuration of several databases gets local bindings for the missing databases, and is otherwise unchanged", () => {
  expect(boundDatabases(config)).toEqual(["DB"]);
  expect(withDatabases(config, 1)).toBe(config);
  const three = withDatabases(config, 3);
  expect(boundDatabases(three)).toEqual(["DB", "DB_1", "DB_2"]);
  expect(three.startsWith(config.trimEnd())).toBe(true);
  expect(withDatabases(three, 3)).toBe(three);
  expect(new Set([...three.matchAll(/^database_id = "(.*)"$/gm)].map(([, id]) => id)).size).toBe(3);
});

it("a configuration of several databases counts no other binding as a database", () => {
  const other = '[[kv_namespaces]]\nbinding = "DB_1"\n\n[[d1_databases]]\nbinding = "LOGS"\n';
  expect(boundDatabases(other)).toEqual([]);
});

it("a configuration of several databases has 1 to 10 databases: any other number is rejected", () => {
  expect([databaseCount("1"), databaseCount("10"), databaseCount(undefined)]).toEqual([1, 10, 1]);
  for (const wrong of ["0", "11", "two", "", "-1", "1.5"]) expect(() => databaseCount(wrong)).toThrow("DATABASES");
});

it("a configuration of several databases is deployed after each database is migrated by its binding", () => {
  expect(deploySteps(withDatabases(config, 2), ["--dry-run"])).toEqual([
    ["d1", "migrations", "apply", "DB", "--remote"],
    ["d1", "migrations", "apply", "DB_1", "--remote"],
    ["deploy", "--dry-run"],
  ]);
});

const page = readFileSync("docs/deployment.md", "utf8");
const blocks = [...page.matchAll(/^```toml\n([\s\S]*?)^```$/gm)].map(([, text = ""]) => text);
const staging = blocks.find((text) => text.startsWith("[env.staging]")) ?? "";
/** Each table with the names that it sets, without comments. */
const tablesOf = (text: string) =>
  text
    .split(/^(?=\[)/m)
    .map((table) => [...table.matchAll(/^(\[.*\]|[\w.]+ *=)/gm)].map(([, name = ""]) => name).join(" "));

it("docs/deployment.md shows a staging environment with all settings that an environment does not inherit", () => {
  const settings = tablesOf(config).filter((table) => /^\[+(vars|d1_databases|ratelimits)\]/.test(table));
  const stagingTables = tablesOf(staging).map((table) => table.replace("env.staging.", ""));
  expect(settings.length).toBeGreaterThan(3);
  expect(stagingTables.slice(1)).toEqual(expect.arrayContaining(settings));
  expect(stagingTables.slice(1)).toHaveLength(settings.length);
});

it("docs/deployment.md shows an environment whose own databases are migrated before it is deployed", () => {
  for (const args of [["--env", "staging"], ["--env=staging"], ["-e", "staging"]]) {
    expect(deploySteps(config + staging, args)).toEqual([
      ["d1", "migrations", "apply", "DB", "--remote", "--env", "staging"],
      ["deploy", ...args],
    ]);
  }
  expect(() => deploySteps(config, ["--env", "staging"])).toThrow("[env.staging]");
});

it("the deploy button has a description of every secret and variable that it asks for", () => {
  const { cloudflare } = JSON.parse(readFileSync("package.json", "utf8"));
  const described = Object.keys(cloudflare.bindings);
  const secrets = [...readFileSync(".dev.vars.example", "utf8").matchAll(/^(\w+)=/gm)].map(([, name = ""]) => name);
  const [, variables = ""] = /^\[vars\]\n([\s\S]*?)\n\n/m.exec(config) ?? [];
  const names = [...variables.matchAll(/^(\w+) =/gm)].map(([, name = ""]) => name);
  expect(names.length).toBeGreaterThan(4);
  expect(secrets.filter((name) => name.endsWith("_PREVIOUS"))).toEqual([]);
  // The button copies the values of this file. A public value would not be a secret, so all are empty.
  expect(readFileSync(".dev.vars.example", "utf8")).not.toMatch(/^\w+=./m);
  const requested = [...secrets, ...names];
  expect(requested.filter((name) => !described.includes(name))).toEqual([]);
});

it("an id of an application or a balance contains its database's index, and other ids contain none", () => {
  for (let index = 0; index < 10; index++) {
    expect(parseDatabaseIndex(idIn(index, randomId("app_")))).toBe(index);
    expect(parseDatabaseIndex(idIn(index, randomId("crb_")))).toBe(index);
  }
  for (const other of ["", randomId("app_"), `${randomId("app_")}x`, `${randomId("app_")}10`, "app_none", "1"]) {
    expect(parseDatabaseIndex(other)).toBeNull();
  }
});

it("an id of an application or a balance refers only to bound databases, from DB to DB_9", () => {
  const [first, third] = [{}, {}];
  const env = { DB: first, DB_2: third, DB_10: {}, ADMIN_TOKEN: "x" };
  expect(allDatabases(env)).toEqual([
    { index: 0, name: "DB", d1: first },
    { index: 2, name: "DB_2", d1: third },
  ]);
  expect(databaseAt(env, 1)).toBeNull();
});

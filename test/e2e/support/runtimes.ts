import { execFileSync, spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { delimiter, join } from "node:path";

/** A runtime that tests the client, with the arguments before a script. The command is null if this machine does not have it. */
export interface ClientRuntime {
  readonly name: string;
  readonly command: string | null;
  readonly args: readonly string[];
  /** A suffix for the names of skipped tests. */
  readonly without: string;
}

// npm puts the newer Node of node_modules first in the PATH, and the tests run on it.
const PLACES = [...(process.env.PATH ?? "").split(delimiter).filter((place) => !place.includes("node_modules"))];

/** The paths at which a program may be: what `set` says, the `PATH`, and the usual folders. */
const places = (name: string, set: string): string[] =>
  [
    process.env[set] ?? "",
    ...PLACES.map((place) => join(place, name)),
    `/usr/local/bin/${name}`,
    `/usr/bin/${name}`,
  ].filter((path) => path !== "" && existsSync(path));

/** A Python that has the packages of the Python client's tests. Undefined if this machine has none. */
export const python = places("python3", "PYTHON_PATH").find(
  (path) => spawnSync(path, ["-c", "import httpx, pytest, pytest_asyncio"]).status === 0,
);
/** A suffix for the names of skipped tests. */
export const withoutPython =
  python === undefined ? " (SKIPPED: no Python with httpx, pytest and pytest-asyncio; set PYTHON_PATH)" : "";

function isOfVersion(command: string, version: RegExp): boolean {
  try {
    return version.test(execFileSync(command, ["--version"], { encoding: "utf8" }));
  } catch {
    return false;
  }
}

function runtime(name: string, command: string, set: string, version: RegExp, args: readonly string[]): ClientRuntime {
  const found = places(command, set).find((path) => isOfVersion(path, version)) ?? null;
  const without = found === null ? ` (SKIPPED: no ${name} here; set ${set})` : "";
  return { name, command: found, args, without };
}

/** The oldest Node that the client and the examples are for. */
export const node20 = runtime("Node 20", "node", "NODE20_PATH", /^v20\./, []);

export const clientRuntimes: readonly ClientRuntime[] = [
  node20,
  runtime("Bun", "bun", "BUN_PATH", /^\d/, []),
  // Deno may access only the network and these two files.
  runtime("Deno", "deno", "DENO_PATH", /^deno/, ["run", "--quiet", "--no-config", "--allow-net", "--allow-read"]),
];

import { existsSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type Schema, Validator } from "@cfworker/json-schema";
import { CliError } from "./connection.ts";

export type Item = Readonly<Record<string, unknown>>;
/** The settings of an application, by section. A section that the file lacks is not looked at. */
export type Config = Readonly<Record<string, unknown>>;

export const CONFIG_FILE = "purser.config.json";
const SCHEMA = "purser.config.schema.json";
const SCHEMA_REFERENCE = `./node_modules/purser-cli/dist/${SCHEMA}`;

/** Throws `CliError` that names the first mistake of settings. */
export function checkConfig(config: unknown, name: string): asserts config is Config {
  const schema: Schema = JSON.parse(readFileSync(join(import.meta.dirname, SCHEMA), "utf8"));
  const { valid, errors } = new Validator(schema, "7", false).validate(config);
  const deepest = errors.toSorted((a, b) => b.instanceLocation.length - a.instanceLocation.length)[0];
  if (!valid) throw new CliError(`${name}, ${deepest?.instanceLocation ?? "#"}: ${deepest?.error ?? "is not valid."}`);
}

/** Reads a file of settings. Throws `CliError` that names the first mistake. */
export function readConfig(file: string): Config {
  if (!existsSync(file)) throw new CliError(`There is no file ${file}. \`purser pull\` writes it.`);
  let config: unknown;
  try {
    config = JSON.parse(readFileSync(file, "utf8").replace(/^\uFEFF/, ""));
  } catch (error) {
    throw new CliError(`${file} is not JSON: ${error instanceof Error ? error.message : error}`);
  }
  checkConfig(config, file);
  return config;
}

/** Replaces a file at once, so that a cut leaves the old one. */
export function writeConfig(file: string, config: Config): void {
  const { $schema = SCHEMA_REFERENCE, ...sections } = config;
  writeFileSync(`${file}.half`, `${JSON.stringify({ $schema, ...sections }, null, 2)}\n`);
  renameSync(`${file}.half`, file);
}

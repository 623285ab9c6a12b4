/**
 * Writes src/generated/operations.ts, the client's table of operations, from openapi.json, and bundles the client to dist/index.js.
 * `npm run reference` runs it.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { build } from "esbuild";
import { writeChanged } from "./write-changed.mjs";

const root = join(import.meta.dirname, "..");
const document = JSON.parse(readFileSync(join(root, "../../.purser/reference/openapi.json"), "utf8"));

const resolve = (schema) =>
  schema?.$ref === undefined ? schema : document.components.schemas[schema.$ref.split("/").at(-1)];

/** The one list of an answer that comes in pages; null for other answers. */
function listOf({ responses }) {
  const properties = resolve(responses[200]?.content?.["application/json"]?.schema)?.properties ?? {};
  if (!("nextCursor" in properties)) return null;
  const lists = Object.keys(properties).filter((name) => resolve(properties[name]).type === "array");
  if (lists.length !== 1) throw new Error(`A page has one list, not ${lists.join(", ")}.`);
  return lists[0];
}

/** The client takes one flat object, so no two of an operation's fields may share a name. */
function assertFlat(method, { operationId, parameters = [], requestBody }) {
  const named = parameters.map((one) => (one.$ref ? document.components.parameters[one.$ref.split("/").at(-1)] : one));
  const path = named.filter((one) => one.in === "path").map(({ name }) => name);
  const query = named.filter((one) => one.in === "query").map(({ name }) => name);
  const body = Object.keys(resolve(requestBody?.content["application/json"]?.schema)?.properties ?? {});
  const names = [...path, ...query, ...body];
  if (new Set(names).size < names.length) throw new Error(`${operationId} has two fields of one name.`);
  if (query.length > 0 && method !== "get" && method !== "delete") throw new Error(`${operationId} has a query and a body.`);
}

const comment = ({ summary, description = "" }) =>
  `  /**\n${[`${summary}.`, ...description.split("\n")]
    .map((line) => `   * ${line.replaceAll("*/", "*\\/")}`.trimEnd())
    .join("\n")}\n   */`;

const lines = [];
const types = [];
for (const [path, item] of Object.entries(document.paths)) {
  for (const [method, operation] of Object.entries(item)) {
    const { operationId: name } = operation;
    if (name === undefined) continue;
    assertFlat(method, operation);
    const list = listOf(operation);
    lines.push(`  ${name}: "${[method.toUpperCase(), path, ...(list === null ? [] : [list])].join(" ")}",`);
    types.push(comment(operation), `  ${name}: ${list === null ? "Operation" : "PagedOperation"}<"${name}">;`);
  }
}

writeChanged(
  join(root, "src/generated/operations.ts"),
  `// Made from openapi.json by scripts/operations.mjs.
import type { Operation, PagedOperation } from "../operation.ts";

/** The method and the path of each operation, and the list of those that answer in pages. */
export const table = {
${lines.join("\n")}
} as const;

/** Every operation of Purser, by its name. */
export interface Operations {
${types.join("\n")}
}
`,
);

const bundle = { bundle: true, format: "esm", target: "es2022", write: false, minifySyntax: true, charset: "utf8" };
const { outputFiles } = await build({ ...bundle, absWorkingDir: root, entryPoints: ["src/index.ts"] });
writeChanged(join(root, "dist/index.js"), outputFiles[0].text);

/**
 * Writes the client's tables of operations, src/generated/{operations,admin,intake}.ts, from openapi.json, and bundles its modules to
 * dist/, for `import` and for `require`. scripts/reference.mjs imports it.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { build } from "esbuild";
import { writeChanged } from "./write-changed.mjs";

const root = join(import.meta.dirname, "..");
const document = JSON.parse(readFileSync(join(root, "../../.purser/reference/openapi.json"), "utf8"));

const resolve = (schema) =>
  schema?.$ref === undefined ? schema : document.components.schemas[schema.$ref.split("/").at(-1)];

/** The forms that a response may have: a page, or one object of its list. */
const formsOf = ({ responses }) => {
  const schema = resolve(responses[200]?.content?.["application/json"]?.schema) ?? {};
  return (schema.anyOf ?? [schema]).map(resolve);
};

/** Returns the name of the list in a response that comes in pages; null for other responses. */
function listOf(operation) {
  const page = formsOf(operation).find(({ properties }) => properties !== undefined && "nextCursor" in properties);
  const { properties = {}, required = [] } = page ?? {};
  if (!("nextCursor" in properties)) return null;
  // A field that only some pages have, such as sums, is not the page's list.
  const lists = Object.keys(properties).filter(
    (name) => required.includes(name) && resolve(properties[name]).type === "array",
  );
  if (lists.length !== 1) throw new Error(`A page has one list, not ${lists.join(", ")}.`);
  return lists[0];
}

/** Throws if two of an operation's fields share a name, because the client takes one flat object. */
function assertFlat(method, { operationId, parameters = [], requestBody }) {
  const named = parameters.map((one) => (one.$ref ? document.components.parameters[one.$ref.split("/").at(-1)] : one));
  const path = named.filter((one) => one.in === "path").map(({ name }) => name);
  const query = named.filter((one) => one.in === "query").map(({ name }) => name);
  const body = Object.keys(resolve(requestBody?.content["application/json"]?.schema)?.properties ?? {});
  const names = [...path, ...query, ...body];
  if (new Set(names).size < names.length) throw new Error(`${operationId} has two fields of one name.`);
  if (query.length > 0 && method !== "get" && method !== "delete")
    throw new Error(`${operationId} has a query and a body.`);
}

const comment = ({ summary, description = "" }) =>
  `  /**\n${[`${summary}.`, ...description.split("\n")]
    .map((line) => `   * ${line.replaceAll("*/", "*\\/")}`.trimEnd())
    .join("\n")}\n   */`;

/** The client's names for the kinds of keys that an operation takes. */
const KEY_OF = {
  secretKey: "sk",
  publishableKey: "pk",
  relayKey: "rk",
  adminToken: "admin",
  administrationKey: "admin",
};

const keysOf = ({ security = [] }) => [
  ...new Set(security.flatMap((one) => Object.keys(one)).map((name) => KEY_OF[name])),
];

const takesUserToken = ({ parameters = [] }) => parameters.some((one) => one.$ref?.endsWith("/endUserToken"));

const answersText = ({ responses }) => !("application/json" in (responses[200]?.content ?? {}));

/** Returns an operation's module: `admin`, `intake` for data of other clients and services, or `operations` for the rest. */
function moduleOf(path, { tags: [tag] }) {
  if (path.startsWith("/api/v1/admin/")) return "admin";
  return tag === "Analytics" || path.startsWith("/api/v1/stripe/") ? "intake" : "operations";
}

const NAMES = { operations: "Operations", admin: "AdminOperations", intake: "IntakeOperations" };

const modules = Map.groupBy(
  Object.entries(document.paths).flatMap(([path, item]) =>
    Object.entries(item).flatMap(([method, operation]) =>
      operation.operationId === undefined ? [] : [{ path, method, operation }],
    ),
  ),
  ({ path, operation }) => moduleOf(path, operation),
);

function typeOf(operation, list) {
  if (list === null) return "Operation";
  return formsOf(operation).length === 1 ? "PagedOperation" : "PagedOrOneOperation";
}

function entry({ path, method, operation }) {
  assertFlat(method, operation);
  const list = listOf(operation);
  const fields = {
    method: method.toUpperCase(),
    path,
    keys: keysOf(operation).join(" "),
    ...(list === null ? {} : { list }),
    ...(takesUserToken(operation) ? { takesUserToken: true } : {}),
    ...(answersText(operation) ? { answersText: true } : {}),
    ...(operation["x-idempotent"] === undefined ? {} : { idempotent: operation["x-idempotent"] }),
  };
  const name = operation.operationId;
  return {
    line: `  ${name}: { ${Object.entries(fields)
      .map(([field, value]) => `${field}: ${JSON.stringify(value)}`)
      .join(", ")} },`,
    type: `${comment(operation)}\n  ${name}: ${typeOf(operation, list)}<"${name}">;`,
  };
}

/** The fields of requests that are times, for which the client also accepts a `Date`. */
const times = new Set();
function findTimes(schema, name) {
  const found = resolve(schema);
  if (found === undefined || typeof found !== "object") return;
  if (found.format === "date-time" && name !== undefined) times.add(name);
  for (const [field, value] of Object.entries(found.properties ?? {})) findTimes(value, field);
  for (const each of [found.items, ...(found.anyOf ?? []), ...(found.oneOf ?? []), ...(found.allOf ?? [])])
    if (each !== undefined) findTimes(each, name);
}
for (const { operation } of [...modules.values()].flat()) {
  for (const one of operation.parameters ?? []) if (one.$ref === undefined) findTimes(one.schema, one.name);
  findTimes(operation.requestBody?.content["application/json"]?.schema);
}

for (const [module, operations] of modules) {
  const entries = operations.map(entry);
  const kinds = ["Operation", "PagedOperation", "PagedOrOneOperation"].filter((kind) =>
    entries.some(({ type }) => type.includes(`: ${kind}<`)),
  );
  writeChanged(
    join(root, `src/generated/${module}.ts`),
    `// Made from openapi.json by scripts/operations.mjs.
import type { ${kinds.join(", ")} } from "../operation.ts";

/** The description of each operation: \`keys\` are the kinds of keys that it takes, \`list\` the field with a page's list. */
export const ${module} = {
${entries.map(({ line }) => line).join("\n")}
} as const;

export interface ${NAMES[module]} {
${entries.map(({ type }) => type).join("\n")}
}
`,
  );
}

writeChanged(
  join(root, "src/generated/times.ts"),
  `// Made from openapi.json by scripts/operations.mjs.

/** The fields of requests that are times. */
export type TimeField = ${[...times]
    .sort()
    .map((name) => `"${name}"`)
    .join(" | ")};
`,
);

// Bundles each module by itself. The others import the first, so that there is only one `PurserError`.
const rules = {
  bundle: true,
  target: "es2022",
  write: false,
  minifySyntax: true,
  charset: "utf8",
  external: ["./index.ts"],
};
for (const [format, extension] of [
  ["esm", "js"],
  ["cjs", "cjs"],
]) {
  for (const name of ["index", "admin", "intake", "meters"]) {
    const { outputFiles } = await build({ ...rules, format, absWorkingDir: root, entryPoints: [`src/${name}.ts`] });
    writeChanged(
      join(root, `dist/${name}.${extension}`),
      outputFiles[0].text.replaceAll("./index.ts", `./index.${extension}`),
    );
  }
}

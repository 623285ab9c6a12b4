/** Builds dist/: the program as one file, without dependencies, and the JSON Schema of its file of settings. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { build } from "esbuild";
import { writeChanged } from "../../typescript/scripts/write-changed.mjs";

const root = join(import.meta.dirname, "..");
const document = JSON.parse(readFileSync(join(root, "../../.purser/reference/openapi.json"), "utf8"));

/** Returns the schema of an operation's body, with all that it refers to in place. */
function bodyOf(operationId) {
  const operation = Object.values(document.paths)
    .flatMap((path) => Object.values(path))
    .find((one) => one.operationId === operationId);
  const inline = (value) => {
    if (Array.isArray(value)) return value.map(inline);
    if (typeof value !== "object" || value === null) return value;
    if (value.$ref !== undefined) return inline(document.components.schemas[value.$ref.split("/").at(-1)]);
    const entries = Object.entries(value).filter(
      ([name]) => !/^(x-|examples?$|id$)/.test(name) || value.type === undefined,
    );
    return Object.fromEntries(entries.map(([name, inner]) => [name, inline(inner)]));
  };
  return inline(operation.requestBody.content["application/json"].schema);
}

const list = (items) => ({ type: "array", items });

/** Returns a schema of an object with some fields left out and others added. */
function changed({ properties, required = [], ...rest }, { without, add = {} }) {
  const kept = Object.entries(properties).filter(([name]) => !without.includes(name));
  const names = [
    ...required.filter((name) => !without.includes(name)),
    ...Object.keys(add).filter((n) => add[n].isRequired),
  ];
  const added = Object.entries(add).map(([name, { isRequired: _, ...schema }]) => [name, schema]);
  return { ...rest, properties: Object.fromEntries([...kept, ...added]), required: names, additionalProperties: false };
}

const isObject = (one) => one.type === "object" || one.anyOf !== undefined || one.oneOf !== undefined;
const notNull = (schema) =>
  [schema, ...(schema.anyOf ?? []), ...(schema.oneOf ?? [])].find((one) => one.type === "object");
const alternatives = (schema) =>
  schema.properties !== undefined
    ? [schema]
    : (schema.anyOf ?? schema.oneOf ?? []).filter(isObject).flatMap(alternatives);

const prices = bodyOf("setPrices").properties;
const stripe = notNull(bodyOf("setStripe").properties.setting);
const endUser = alternatives(bodyOf("setEndUserAuth").properties.setting).map((one) =>
  changed(one, { without: ["secret"] }),
);
const pack = bodyOf("createPack");
const stripePrice = changed(stripe.properties.prices.items, {
  without: ["packId"],
  add: { pack: { type: "string", description: "The name of the pack.", isRequired: true } },
});

const schema = {
  $schema: "http://json-schema.org/draft-07/schema#",
  title: "Settings of an application in Purser",
  type: "object",
  additionalProperties: false,
  properties: {
    $schema: { type: "string" },
    packs: list({ ...changed(pack, { without: [] }), required: ["packName"] }),
    unitNames: bodyOf("setUnitNames").properties.names,
    prices: {
      ...changed(bodyOf("setPrices"), { without: ["mode", "effectiveAt", "ifVersion"] }),
      description: "The price list in force.",
      properties: { rules: prices.rules, costs: prices.costs, note: prices.note },
    },
    usageLimits: list(changed(bodyOf("createUsageLimit"), { without: ["mode"] })),
    alerts: list(changed(bodyOf("createAlert"), { without: ["mode"] })),
    expiryNotices: bodyOf("setExpiryNotices").properties.days,
    endUserAuth: { anyOf: [...endUser, { type: "null" }] },
    stripe: {
      anyOf: [
        changed(
          { ...stripe, properties: { ...stripe.properties, prices: list(stripePrice) } },
          { without: ["signingSecrets"] },
        ),
        { type: "null" },
      ],
    },
    webhooks: list(
      changed(bodyOf("createWebhook"), { without: ["mode"], add: { isEnabled: { type: "boolean", default: true } } }),
    ),
  },
};
const text = `${JSON.stringify(schema, null, 2)}\n`;
writeChanged(join(root, "dist/purser.config.schema.json"), text);

const { outputFiles } = await build({
  absWorkingDir: root,
  entryPoints: ["src/main.ts"],
  bundle: true,
  platform: "node",
  format: "cjs",
  target: "node20",
  charset: "utf8",
  write: false,
  loader: { ".json": "json" },
  alias: {
    "purser-client/admin": join(root, "../typescript/src/admin.ts"),
    "purser-client": join(root, "../typescript/src/index.ts"),
  },
  define: { "import.meta.dirname": "__dirname" },
  banner: { js: "#!/usr/bin/env node" },
});
writeChanged(join(root, "dist/purser.cjs"), outputFiles[0].text);

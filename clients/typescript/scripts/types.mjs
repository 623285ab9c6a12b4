/** Writes src/generated/api.ts, the types of openapi.json, with the generator of tools/generated-client. */
import { createHash } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { writeChanged } from "./write-changed.mjs";

const root = join(import.meta.dirname, "../../..");
const file = join(import.meta.dirname, "../src/generated/api.ts");
const text = readFileSync(join(root, ".purser/reference/openapi.json"), "utf8");

const head = `// Made from openapi.json ${createHash("sha256").update(text).digest("hex")} by scripts/types.mjs.\n`;
if (!existsSync(file) || !readFileSync(file, "utf8").startsWith(head)) {
  const require = createRequire(join(root, "tools/generated-client/package.json"));
  const { default: openapiTS, astToString } = require("openapi-typescript");
  const { factory, SyntaxKind } = require("typescript");
  const number = factory.createKeywordTypeNode(SyntaxKind.NumberKeyword);
  const string = factory.createKeywordTypeNode(SyntaxKind.StringKeyword);
  // A sum that a double would round comes from the client as a string with all its digits (src/send.ts).
  const transform = (schema) => (schema["x-sum"] === true ? factory.createUnionTypeNode([number, string]) : undefined);
  writeChanged(file, head + astToString(await openapiTS(JSON.parse(text), { transform })));
}

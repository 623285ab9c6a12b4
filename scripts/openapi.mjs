// Lints the OpenAPI document that the Worker serves. The document is left in .purser/openapi.json to be looked at.
import { spawnSync } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { apiDocument } from "../src/openapi.ts";

const file = ".purser/openapi.json";
mkdirSync(".purser", { recursive: true });
writeFileSync(file, JSON.stringify(apiDocument(), null, 2));

const { status, stdout, stderr } = spawnSync("redocly", ["lint", file], {
  encoding: "utf8",
  env: { ...process.env, REDOCLY_TELEMETRY: "off", REDOCLY_SUPPRESS_UPDATE_NOTICE: "true" },
});
if (status !== 0) {
  console.error(stdout, stderr);
  process.exitCode = 1;
}

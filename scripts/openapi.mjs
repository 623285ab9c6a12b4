// Lints the OpenAPI document that `npm run reference` generated.
import { spawnSync } from "node:child_process";

const { status, stdout, stderr } = spawnSync("redocly", ["lint", ".purser/reference/openapi.json"], {
  encoding: "utf8",
  env: { ...process.env, REDOCLY_TELEMETRY: "off", REDOCLY_SUPPRESS_UPDATE_NOTICE: "true" },
});
if (status !== 0) {
  console.error(stdout, stderr);
  process.exitCode = 1;
}

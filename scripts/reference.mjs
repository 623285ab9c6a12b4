// `npm run reference`: makes the files that the Worker serves: the reference, the balance element and llms.txt. Wrangler and
// Vitest run it themselves.
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { build } from "esbuild";

const root = join(import.meta.dirname, "..");
const directory = join(root, ".purser/reference");

const { outputFiles } = await build({
  absWorkingDir: root,
  entryPoints: ["src/reference/files.tsx"],
  bundle: true,
  format: "esm",
  platform: "node",
  mainFields: ["module", "main"],
  write: false,
});
const made = await import(`data:text/javascript;base64,${Buffer.from(outputFiles[0].contents).toString("base64")}`);

function read(file) {
  try {
    return readFileSync(file, "utf8");
  } catch {
    return null;
  }
}

const element = await build({
  absWorkingDir: root,
  entryPoints: ["clients/balance/purser-balance.ts"],
  bundle: true,
  minify: true,
  charset: "utf8",
  format: "esm",
  target: "es2022",
  write: false,
});
const files = {
  ...made.referenceFiles(),
  "purser-balance.js": element.outputFiles[0].text,
  "llms.txt": readFileSync(join(root, "docs/llms.txt"), "utf8"),
};

mkdirSync(directory, { recursive: true });
for (const [name, text] of Object.entries(files)) {
  const file = join(directory, name);
  // An unchanged file is not written, because Wrangler watches these files and would load it again.
  if (read(file) !== text) writeFileSync(file, text);
}

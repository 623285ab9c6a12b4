// `npm run reference`: makes the files of the reference that the Worker serves. Wrangler and Vitest run it by themselves.
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

mkdirSync(directory, { recursive: true });
for (const [name, text] of Object.entries(made.referenceFiles())) {
  const file = join(directory, name);
  // A file that is as it was stays untouched: Wrangler, which watches them, need not load it anew.
  if (read(file) !== text) writeFileSync(file, text);
}

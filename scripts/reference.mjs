// `npm run reference`: generates the files of the reference, which the Worker serves. Wrangler and Vitest run it themselves.
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
  // An unchanged file is not written, because Wrangler watches these files and would load it again.
  if (read(file) !== text) writeFileSync(file, text);
}

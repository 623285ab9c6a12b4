// `npm run bundle`: makes the file that Wrangler uploads. Wrangler runs it itself.
import { mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { bundleWorker } from "./worker-bundle.mjs";

const file = join(import.meta.dirname, "../.purser/worker/index.js");

function read() {
  try {
    return readFileSync(file, "utf8");
  } catch {
    return null;
  }
}

const { code } = await bundleWorker("src/index.ts");
// Wrangler watches the file, and tests build it side by side: unchanged it is not written, and nobody sees it half-written.
if (read() !== code) {
  mkdirSync(dirname(file), { recursive: true });
  const made = `${file}.${process.pid}`;
  writeFileSync(made, code);
  renameSync(made, file);
}

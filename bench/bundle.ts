import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { promisify } from "node:util";

const root = join(import.meta.dirname, "..");

/** The code of a Worker, a path from the root, as `npm run deploy` uploads it. */
export async function bundle(entry: string): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), "purser-bundle-"));
  try {
    const args = ["deploy", entry, "--dry-run", "--outdir", directory];
    await promisify(execFile)(join(root, "node_modules/.bin/wrangler"), args, { cwd: root });
    return await readFile(join(directory, basename(entry).replace(/\.ts$/, ".js")), "utf8");
  } finally {
    await rm(directory, { recursive: true });
  }
}

// `npm run places < log`: replaces each place in the Worker's log by its place in the sources of this commit.
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { SourceMap } from "node:module";
import { tmpdir } from "node:os";
import { join, relative, resolve } from "node:path";

const root = join(import.meta.dirname, "..");
const wrangler = join(root, "node_modules/wrangler/bin/wrangler.js");
const directory = mkdtempSync(join(tmpdir(), "purser-places-"));

try {
  execFileSync(process.execPath, [wrangler, "deploy", "--dry-run", "--outdir", directory], {
    cwd: root,
    stdio: "pipe",
  });
  const map = new SourceMap(JSON.parse(readFileSync(join(directory, "index.js.map"), "utf8")));
  const log = readFileSync(process.stdin.fd, "utf8");
  const text = log.replace(/(?<=[ (])index\.js:(\d+):(\d+)/g, (place, line, column) => {
    const { fileName, lineNumber, columnNumber } = map.findOrigin(Number(line), Number(column));
    return fileName === undefined
      ? place
      : `${relative(root, resolve(directory, fileName))}:${lineNumber}:${columnNumber}`;
  });
  process.stdout.write(text);
} finally {
  rmSync(directory, { recursive: true, force: true });
}

import { execFileSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";

const root = join(import.meta.dirname, "..");
const wrangler = join(root, "node_modules/.bin/wrangler");

export interface Startup {
  readonly bytes: number;
  readonly gzipBytes: number;
  /** CPU time of the Worker's start on this machine; null when it could not be profiled. */
  readonly activeMs: number | null;
}

interface Profile {
  readonly nodes: readonly { readonly id: number; readonly callFrame: { readonly functionName: string } }[];
  readonly samples: readonly number[];
  readonly timeDeltas: readonly number[];
}

function activeMsOf(profile: Profile): number {
  const idle = new Set(
    profile.nodes.filter((node) => ["(idle)", "(root)"].includes(node.callFrame.functionName)).map((node) => node.id),
  );
  const active = profile.samples.map((sample, index) => (idle.has(sample) ? 0 : (profile.timeDeltas[index] ?? 0)));
  return active.reduce((sum, delta) => sum + delta, 0) / 1_000;
}

/** What wrangler would upload, and what it costs to start it. */
export function measureStartup(): Startup {
  const directory = mkdtempSync(join(tmpdir(), "purser-startup-"));
  try {
    execFileSync(wrangler, ["deploy", "--dry-run", "--outdir", directory], { cwd: root, stdio: "pipe" });
    const modules = readdirSync(directory).filter((name) => !/\.map$|^README/.test(name));
    const files = modules.map((name) => readFileSync(join(directory, name)));
    const profilePath = join(directory, "startup.cpuprofile");
    let activeMs: number | null = null;
    try {
      execFileSync(wrangler, ["check", "startup", "--outfile", profilePath], {
        cwd: root,
        stdio: "pipe",
        timeout: 120_000,
      });
      activeMs = activeMsOf(JSON.parse(readFileSync(profilePath, "utf8")) as Profile);
    } catch (error) {
      console.log(`wrangler check startup did not work here: ${error instanceof Error ? error.message : error}`);
    }
    const sum = (sizes: readonly number[]) => sizes.reduce((total, size) => total + size, 0);
    return {
      bytes: sum(files.map((file) => file.length)),
      gzipBytes: sum(files.map((file) => gzipSync(file).length)),
      activeMs,
    };
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

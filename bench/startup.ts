import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { bundle } from "./bundle.ts";
import { median } from "./support.ts";

const root = join(import.meta.dirname, "..");
const STARTS = 5;

export interface Startup {
  readonly bytes: number;
  readonly gzipBytes: number;
  /** The CPU time of the Worker's start on this machine: the median of several. Null if it could not be profiled. */
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

function profileStart(directory: string): number {
  const outfile = join(directory, "startup.cpuprofile");
  execFileSync(join(root, "node_modules/.bin/wrangler"), ["check", "startup", "--outfile", outfile], {
    cwd: root,
    stdio: "pipe",
    timeout: 120_000,
  });
  return activeMsOf(JSON.parse(readFileSync(outfile, "utf8")) as Profile);
}

/** What Wrangler uploads, and the cost of its start. */
export async function measureStartup(): Promise<Startup> {
  const directory = mkdtempSync(join(tmpdir(), "purser-startup-"));
  let activeMs: number | null = null;
  try {
    activeMs = median(Array.from({ length: STARTS }, () => profileStart(directory)));
  } catch (error) {
    console.log(`wrangler check startup did not work here: ${error instanceof Error ? error.message : error}`);
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
  const code = await bundle("src/index.ts");
  return { bytes: Buffer.byteLength(code), gzipBytes: gzipSync(code).length, activeMs };
}

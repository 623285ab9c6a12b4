import { execFileSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";

const root = join(import.meta.dirname, "..");
const wrangler = join(root, "node_modules/.bin/wrangler");

/** The entry of the deployed Worker, and of the same Worker without `src/dashboard`. */
export type BundleEntry = "src/index.ts" | "bench/workers/without-dashboard.ts";

export interface Bundle {
  readonly bytes: number;
  readonly gzipBytes: number;
  /** The bytes of each file in the bundle, by its path: `node_modules/…` or `src/…`. */
  readonly files: ReadonlyMap<string, number>;
}

interface Metafile {
  readonly outputs: Readonly<
    Record<string, { readonly inputs: Readonly<Record<string, { readonly bytesInOutput: number }>> }>
  >;
}

function filesOf({ outputs }: Metafile): Map<string, number> {
  const files = new Map<string, number>();
  for (const { inputs } of Object.values(outputs)) {
    for (const [file, { bytesInOutput }] of Object.entries(inputs)) {
      if (bytesInOutput > 0) files.set(file.replace(/^.*?(?=node_modules\/|src\/)/, ""), bytesInOutput);
    }
  }
  return files;
}

/** What wrangler would upload for this entry, without assets. */
export function measureBundle(entry: BundleEntry): Bundle {
  const directory = mkdtempSync(join(tmpdir(), "purser-bundle-"));
  try {
    const metafile = join(directory, "metafile.json");
    execFileSync(wrangler, ["deploy", entry, "--dry-run", "--outdir", directory, "--metafile", metafile], {
      cwd: root,
      stdio: "pipe",
    });
    const modules = readdirSync(directory).filter((name) => !/\.map$|\.json$|^README/.test(name));
    const texts = modules.map((name) => readFileSync(join(directory, name)));
    const sum = (sizes: readonly number[]) => sizes.reduce((total, size) => total + size, 0);
    return {
      bytes: sum(texts.map((text) => text.length)),
      gzipBytes: sum(texts.map((text) => gzipSync(text).length)),
      files: filesOf(JSON.parse(readFileSync(metafile, "utf8")) as Metafile),
    };
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

const partOf = (file: string): string => {
  const [first = "", second = "", third = ""] = file.split("/");
  if (first !== "node_modules") return `${first}/${second}`;
  return second.startsWith("@") ? `${second}/${third}` : second;
};

/** The packages and rooms of a bundle, largest first. */
export function partsOf({ files }: Bundle): readonly (readonly [part: string, bytes: number])[] {
  const parts = new Map<string, number>();
  for (const [file, bytes] of files) parts.set(partOf(file), (parts.get(partOf(file)) ?? 0) + bytes);
  return [...parts].sort(([, a], [, b]) => b - a);
}

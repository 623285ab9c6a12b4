import { gzipSync } from "node:zlib";
import { bundleWorker } from "../scripts/worker-bundle.mjs";

/** The entry of the deployed Worker, and of the same Worker without `src/dashboard`. */
export type BundleEntry = "src/index.ts" | "bench/workers/without-dashboard.ts";

export interface Bundle {
  readonly bytes: number;
  readonly gzipBytes: number;
  /** The bytes of each file before they are packed, by its path: `node_modules/…` or `src/…`. */
  readonly files: ReadonlyMap<string, number>;
}

/** What Wrangler uploads for this entry, without assets. */
export async function measureBundle(entry: BundleEntry): Promise<Bundle> {
  const { code, files } = await bundleWorker(entry);
  return { bytes: Buffer.byteLength(code), gzipBytes: gzipSync(code).length, files };
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

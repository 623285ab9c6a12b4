export function bundleWorker(entry: string): Promise<{
  readonly code: string;
  /** As JSON. */
  readonly map: string;
  /** The bytes of each file before they are packed, by its path from the root. */
  readonly files: ReadonlyMap<string, number>;
}>;

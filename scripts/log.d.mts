import type { Readable } from "node:stream";

export function keptLine(line: string): string | null;

export function openLog(
  child: { readonly stdout: Readable; readonly stderr: Readable },
  file?: string,
  bytesMax?: number,
): { readonly file: string; readonly text: () => string };

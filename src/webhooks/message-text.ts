import { iso } from "../lib/time.ts";
import type { Mode } from "../runtime.ts";

export interface MessageRow {
  readonly id: string;
  readonly type: string;
  readonly atMs: number;
  /** JSON object. */
  readonly data: string;
  readonly appId: string;
  readonly mode: Mode;
}

/** The body of a message, the same in every attempt. `data` is the text that was written, with all of its digits. */
export function messageText({ id, type, atMs, appId, mode, data }: MessageRow): string {
  const head = JSON.stringify({ id, type, timestamp: iso(atMs), appId, mode });
  return `${head.slice(0, -1)},"data":${data}}`;
}

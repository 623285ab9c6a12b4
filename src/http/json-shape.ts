import { invalid } from "../errors.ts";
import { JsonBytes, JsonSyntaxError } from "../lib/json-bytes.ts";

/** A smaller body cannot cost much, whatever it is made of. */
const SMALL_BYTES = 64 * 1024;
const CONTAINERS_MAX = 50_000;
const LEVELS_MAX = 1_000;

/**
 * Refuses a body that JSON.parse would turn into many times its size, or that a recursive reader could not walk (L1). A body that
 * is not JSON is left to the reader that says so.
 */
export function assertJsonShape(bytes: Uint8Array): void {
  if (bytes.length <= SMALL_BYTES) return;
  const json = new JsonBytes(bytes);
  try {
    json.whole((start) => json.skip(start));
  } catch (error) {
    if (error instanceof JsonSyntaxError) return;
    throw error;
  }
  if (json.depth > LEVELS_MAX) throw invalid("body", `must nest at most ${LEVELS_MAX} levels`);
  if (json.containers > CONTAINERS_MAX) throw invalid("body", `must have at most ${CONTAINERS_MAX} objects and lists`);
}

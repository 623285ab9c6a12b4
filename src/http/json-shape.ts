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

/** What to change about a text that is no JSON, in linear time. It repeats nothing of the text. */
export function jsonAdvice(text: string, cause: unknown): string {
  const start = text.trimStart();
  if (start === "") return "The body is empty. Send the arguments as a JSON object in the body.";
  if (/^--[^\r\n]+\r?\n/.test(start) || /^[\w.[\]%-]+=/.test(start)) {
    return "The body is a form, not JSON. Send a JSON object with `Content-Type: application/json`.";
  }
  const place = cause instanceof Error ? /position (\d+)/.exec(cause.message)?.[1] : undefined;
  return (
    `The body is not valid JSON${place === undefined ? "" : `: it goes wrong after ${place} characters`}. ` +
    "Send the text that JSON.stringify or its like makes: strings and names have double quotes, values are strings, numbers, " +
    "true, false, null, objects and lists, and there are no comments and no comma after the last element."
  );
}

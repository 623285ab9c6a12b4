import { brokenElement } from "../lib/json.ts";

/** The most bytes of a body. */
export const BODY_BYTES_MAX = 1024 * 1024;
/** The most bytes that Purser decompresses or parses before it has checked the key (L2). */
export const UNKNOWN_KEY_BYTES_MAX = 64 * 1024;

/** Returns what to change about a text that is not JSON, in linear time. The advice repeats nothing of the text. */
export function jsonAdvice(text: string, cause: unknown): string {
  const start = text.trimStart();
  if (start === "") return "The body is empty. Send the arguments as a JSON object in the body.";
  if (/^--[^\r\n]+\r?\n/.test(start) || /^[\w.[\]%-]+=/.test(start)) {
    return "The body is a form, not JSON. Send a JSON object with `Content-Type: application/json`.";
  }
  const position = cause instanceof Error ? /position (\d+)/.exec(cause.message)?.[1] : undefined;
  const element = brokenElement(text);
  const places = [
    ...(position === undefined ? [] : [`after ${position} characters`]),
    ...(element === null ? [] : [`in element ${element} of the list (the first is 0)`]),
  ];
  return (
    `The body is not valid JSON${places.length === 0 ? "" : `: the error is ${places.join(", ")}`}. ` +
    "Send text from JSON.stringify or a similar function. Strings and names have double quotes. Values are strings, numbers, " +
    "true, false, null, objects and lists. There are no comments, and no comma after the last element."
  );
}

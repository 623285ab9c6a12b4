import { expect, it } from "vitest";
import { jsonAdvice } from "../../src/http/body.ts";

it("describes the error in a mebibyte of malformed JSON within a second, for any repeated text", () => {
  const length = 1024 * 1024;
  for (const piece of ["\n", " ", ",", "\n ", ", ", ": ", "[", "-", "a", "\n/", "'", "{", "[object "]) {
    const startMs = performance.now();
    jsonAdvice(`{${piece.repeat(length / piece.length)}`, null);
    jsonAdvice(piece.repeat(length / piece.length), null);
    expect(performance.now() - startMs, JSON.stringify(piece)).toBeLessThan(1_000);
  }
});

it("names the position where the parser stopped, and quotes no part of the text", () => {
  const text = '{"a": 1 "alice@example.com": 2}';
  let cause: unknown;
  try {
    JSON.parse(text);
  } catch (error) {
    cause = error;
  }
  expect(jsonAdvice(text, cause)).toMatch(/^The body is not valid JSON: the error is after 8 characters\. Send [^@]+$/);
});

import { expect, it } from "vitest";
import { jsonAdvice } from "../../src/http/json-body.ts";

it("describes the error in a mebibyte of malformed JSON, whatever text repeats", () => {
  const length = 1024 * 1024;
  for (const piece of ["\n", " ", ",", "\n ", ", ", ": ", "[", "-", "a", "\n/", "'", "{", "[object "]) {
    const text = piece.repeat(length / piece.length);
    for (const sent of [text, `{${text}`])
      expect(jsonAdvice(sent, null).length, JSON.stringify(piece)).toBeLessThan(500);
  }
});

it.each([
  ['[{"a": 1}, nope]', 1],
  ["[{} {}]", 0],
  ["[1, 2, {]", 2],
  ["[", 0],
])("names the element of a list that is not JSON: %s", (text, index) => {
  const cause = (() => {
    try {
      return JSON.parse(text);
    } catch (error) {
      return error;
    }
  })();
  expect(cause).toBeInstanceOf(SyntaxError);
  expect(jsonAdvice(text, cause)).toContain(`in element ${index} of the list (the first is 0). Send text`);
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

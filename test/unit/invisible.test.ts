import { expect, it } from "vitest";
import { showInvisible } from "../../src/dashboard/invisible.ts";

it("a page of the dashboard shows invisible and direction-changing characters of its texts as escapes", () => {
  const shown = showInvisible("<td>ana\u200b</td><td>\u202eana</td><td>a\u2028\u00ad\ufe0f\ufeff\u2800\u{e0041}</td>");
  expect(shown).toBe(
    "<td>ana\\u{200b}</td><td>\\u{202e}ana</td><td>a\\u{2028}\\u{ad}\\u{fe0f}\\u{feff}\\u{2800}\\u{e0041}</td>",
  );
});

it("a page of the dashboard keeps visible texts, values of attributes, and what forms send back", () => {
  for (const html of [
    "<p>Zoë 日本 عربي – 1 000\t\n</p>",
    '<input value="ana\u200b&gt;\u202e"/>',
    "<textarea>a\u200b</textarea>",
    "<script>const a = '\u200b < b';</script>",
  ]) {
    expect(showInvisible(html)).toBe(html);
  }
});

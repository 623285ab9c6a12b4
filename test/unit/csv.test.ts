import { expect, it } from "vitest";
import { csvText } from "../../src/lib/encoding.ts";

const linesOf = (text: string) => text.slice(1).trimEnd().split("\r\n");

it("a CSV file begins with a byte order mark, and ends each line with CR and LF", () => {
  const text = csvText(
    ["a", "b"],
    [
      ["Zoë", 1],
      [null, -2],
    ],
  );
  expect(text).toBe('\ufeffa,b\r\n"Zoë",1\r\n,-2\r\n');
});

it.each(["=1+1", "+cmd", "+1-2", "-1", "@a", "\ta", "\ra", "+"])(
  "a CSV file lets no spreadsheet read %j as a formula",
  (text) => {
    expect(linesOf(csvText(["a"], [[text], ["x"]]))[1]).toBe(`"'${text}"`);
    expect(linesOf(csvText(["a"], [[text], ["x"]], { isRaw: true }))[1]).toBe(`"${text}"`);
  },
);

it("a CSV file leaves a plus before digits alone, and doubles quotes", () => {
  expect(linesOf(csvText(["a"], [["+4930123456"], ['say "hi"']]))).toEqual(["a", '"+4930123456"', '"say ""hi"""']);
});

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { JsonBytes, JsonSyntaxError, Names } from "../../src/lib/json-bytes.ts";

const bytesOf = (text: string) => new JsonBytes(new TextEncoder().encode(text));

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

/** Whether the scanner accepts the text. */
function isScanned(text: string): boolean {
  const json = bytesOf(text);
  try {
    json.whole((start) => json.skip(start));
    return true;
  } catch (error) {
    if (error instanceof JsonSyntaxError) return false;
    throw error;
  }
}

describe("the JSON scanner", () => {
  it("accepts exactly the texts that JSON.parse accepts", () => {
    const valid = fc.json({ maxDepth: 4 });
    const damaged = fc.tuple(valid, fc.nat(), fc.nat(3), fc.string({ maxLength: 2 })).map(([text, at, count, put]) => {
      const from = at % (text.length + 1);
      return text.slice(0, from) + put + text.slice(from + count);
    });
    const soup = fc
      .array(fc.constantFrom(...'{}[]",:\\\\ntrue-+.eE019 \\u00e9\\n'.split(""), "null", "false", "\\u12aF", "1e5"), {
        maxLength: 12,
      })
      .map((parts) => parts.join(""));
    fc.assert(
      fc.property(fc.oneof(valid, damaged, soup), (text) => {
        expect(isScanned(text.toWellFormed())).toBe(isJson(text.toWellFormed()));
      }),
      { numRuns: 3_000 },
    );
  });

  it.each([
    ...["", " ", "-", "01", "1.", ".5", "1e", "1e+", "+1", "0x1", "tru", "nul", "truex", "{", "[", '"', '"\\', "[1,]"],
    ...['{"a":1,}', "{a:1}", '{"a" 1}', '{"a":}', "[1 2]", '"\t"', '"\\x"', '"\\u12g4"', '"\\u12', "1 2", "{}}", "[]]"],
    ...[
      "-0",
      "0",
      "-1.5e-10",
      "1E400",
      ' \r\n\t{ "a" : [ ] , "b" : { } } ',
      '"\\"\\\\\\/\\b\\f\\n\\r\\t\\u00E9"',
      "[[],{}]",
    ],
  ])("judges %j as JSON.parse does", (text) => {
    expect(isScanned(text)).toBe(isJson(text));
  });

  it("finds the positions of members and elements, and counts levels", () => {
    const value = fc.dictionary(fc.string(), fc.jsonValue({ maxDepth: 3 }));
    fc.assert(
      fc.property(value, (object) => {
        const text = JSON.stringify(object);
        const json = bytesOf(text);
        const members: [string, unknown][] = [];
        json.members(0, (name, start) => {
          const end = json.skip(start);
          members.push([json.string(name), JSON.parse(json.text({ start, end }))]);
          return end;
        });
        expect(members).toEqual(Object.entries(JSON.parse(text)));
      }),
    );
    const json = bytesOf('[1,[[]],"x",{"a":{"b":[1]}}]');
    const depths: number[] = [];
    json.elements(0, (start) => {
      const end = json.skip(start);
      depths.push(json.depth);
      return end;
    });
    expect(depths).toEqual([0, 2, 0, 3]);
  });

  it("recognises a name in any escaped form", () => {
    const names = new Names(["$set", "uuid"]);
    const json = bytesOf('{"$set":1,"\\u0024set":2,"uui\\u0064":3,"$sets":4,"set":5,"\\ud800":6}');
    const matches: (string | undefined)[] = [];
    json.members(0, (name, start) => {
      matches.push(json.find(names, name));
      return json.skip(start);
    });
    expect(matches).toEqual(["$set", "$set", "uuid", undefined, undefined, undefined]);
  });

  it("scans two million levels without recursion", () => {
    const deep = 2_000_000;
    expect(isScanned("[".repeat(deep) + "]".repeat(deep))).toBe(true);
    expect(isScanned('{"a":'.repeat(deep))).toBe(false);
  });
});

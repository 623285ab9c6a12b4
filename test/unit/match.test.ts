import fc from "fast-check";
import { expect, it } from "vitest";
import { globMatches, globsMeet, type MatchRule, rulesCover, rulesPassFilter } from "../../src/books/amounts/match.ts";

/** The simplest implementation of a glob, by backtracking. */
function matchesNaively(glob: string, name: string): boolean {
  if (glob === "") return name === "";
  if (glob.startsWith("*"))
    return matchesNaively(glob.slice(1), name) || (name !== "" && matchesNaively(glob, name.slice(1)));
  return name !== "" && glob[0] === name[0] && matchesNaively(glob.slice(1), name.slice(1));
}

/** Every text over an alphabet, up to a length. */
function texts(alphabet: string, lengthMax: number): string[] {
  const all = [""];
  for (let from = 0, length = 0; length < lengthMax; length++) {
    const to = all.length;
    for (; from < to; from++) for (const character of alphabet) all.push(all[from] + character);
  }
  return all;
}

const short = (alphabet: string, maxLength: number) =>
  fc.array(fc.constantFrom(...alphabet), { maxLength }).map((characters) => characters.join(""));

it("globMatches equals a naive implementation on every small glob and name", () => {
  const names = texts("ab", 5);
  for (const glob of texts("ab*", 5)) {
    for (const name of names) {
      expect(globMatches(glob, name), `${glob} against ${name}`).toBe(matchesNaively(glob, name));
    }
  }
});

it("globMatches equals a naive implementation on random globs and names, especially repetitive and self-overlapping ones", () => {
  fc.assert(
    fc.property(short("ab*", 12), short("ab", 16), (glob, name) => {
      expect(globMatches(glob, name)).toBe(matchesNaively(glob, name));
    }),
    { numRuns: 5_000 },
  );
  fc.assert(
    fc.property(short("a.*\\?[]^$()", 10), short("a.*\\?[]^$()", 10), (glob, name) => {
      expect(globMatches(glob, name)).toBe(matchesNaively(glob, name));
    }),
    { numRuns: 2_000 },
  );
});

it("globMatches matches every name that results from replacing a glob's stars", () => {
  fc.assert(
    fc.property(fc.array(fc.string(), { minLength: 1, maxLength: 6 }), fc.string(), (parts, filling) => {
      const literal = parts.map((part) => part.replaceAll("*", ""));
      expect(globMatches(literal.join("*"), literal.join(filling))).toBe(true);
    }),
  );
});

it.each([
  ["chat.*", "chat.completed", true],
  ["chat.*", "chat.", true],
  ["chat.*", "chat", false],
  ["*", "", true],
  ["*", "anything", true],
  ["**", "x", true],
  ["a*a", "a", false],
  ["a*a", "aa", true],
  ["*.done", "a.done", true],
  ["*.done", ".done", true],
  ["*.done", "done", false],
  ["a*b*c", "abcbc", true],
  ["a*bc*c", "abc", false],
  ["*aab*", "aaab", true],
  ["Chat", "chat", false],
  ["a?c", "abc", false],
  ["a.c", "abc", false],
  ["[ab]", "a", false],
  ["é", "e\u0301", false],
  ["*😀", "x😀", true],
])("globMatches matches %s with %s: %s", (glob, name, matches) => {
  expect(globMatches(glob, name)).toBe(matches);
});

// Each of these would take hours with backtracking.
it.each([
  ["stars between every letter", `${"a*".repeat(50_000)}b`, "a".repeat(100_000), false],
  ["stars between every letter of 200", `${"a*".repeat(100)}b`, "a".repeat(200), false],
  ["a long part that almost fits everywhere", `*${"a".repeat(50_000)}b*`, "a".repeat(100_000), false],
  ["a long part that fits at the end", `*${"a".repeat(50_000)}b*`, `${"a".repeat(99_999)}b`, true],
  ["nothing but stars", "*".repeat(100_000), "a".repeat(100_000), true],
  ["many parts that overlap themselves", "*aab".repeat(25_000), "aaab".repeat(25_000), true],
  ["a part of two halves", `*${"ab".repeat(25_000)}a*`, "ab".repeat(50_000), true],
])("globMatches finishes on a hostile pair of 100,000 characters: %s", (_, glob, name, matches) => {
  expect(globMatches(glob, name)).toBe(matches);
});

// If two globs of at most 3 characters match a common name, then also one of at most 6 characters.
it("globsMeet equals a search for a common name on every pair of small globs", () => {
  const globs = texts("ab*", 3);
  const names = texts("ab", 6);
  const matched = new Map(globs.map((glob) => [glob, new Set(names.filter((name) => matchesNaively(glob, name)))]));
  for (const a of globs) {
    for (const b of globs) {
      const [of, other] = [matched.get(a), matched.get(b)];
      expect(globsMeet(a, b), `${a} and ${b}`).toBe(names.some((name) => of?.has(name) && other?.has(name)));
    }
  }
});

it("globsMeet is symmetric", () => {
  fc.assert(
    fc.property(short("ab*", 14), short("ab*", 14), (a, b) => {
      expect(globsMeet(a, b)).toBe(globsMeet(b, a));
    }),
    { numRuns: 2_000 },
  );
});

it("globsMeet equals globMatches when one of the two is a plain name", () => {
  fc.assert(
    fc.property(short("ab*", 14), short("ab", 14), (glob, name) => {
      expect(globsMeet(glob, name)).toBe(globMatches(glob, name));
      expect(globsMeet(name, glob)).toBe(globMatches(glob, name));
    }),
    { numRuns: 2_000 },
  );
});

it("globsMeet finishes on hostile globs of 100,000 characters", () => {
  expect(globsMeet("a*".repeat(50_000), "*a".repeat(50_000))).toBe(true);
  expect(globsMeet(`${"a*".repeat(50_000)}c`, `${"*a".repeat(50_000)}`)).toBe(false);
  expect(globsMeet(`${"a".repeat(99_999)}*`, `*${"a".repeat(99_998)}b`)).toBe(true);
  expect(globsMeet(`${"a".repeat(99_999)}*`, `${"a".repeat(99_998)}b*`)).toBe(false);
});

it("globsMeet is correct for hostile globs of up to 200 characters, the longest that are allowed", () => {
  expect(globsMeet(`${"a*".repeat(100)}`, `${"*a".repeat(99)}*b`)).toBe(true);
  expect(globsMeet(`${"a*".repeat(99)}c`, `${"*a".repeat(99)}*b`)).toBe(false);
  expect(globsMeet("*".repeat(200), "*".repeat(200))).toBe(true);
});

const rule = fc.oneof(
  fc.record({ event: short("ab*", 4) }),
  fc.record({ model: short("ab*", 4) }),
  fc.record({ event: short("ab*", 4), model: short("ab*", 4) }),
);

it("rules cover an event when one rule matches in every part that it names, or when there are no rules", () => {
  fc.assert(
    fc.property(
      fc.array<MatchRule>(rule, { maxLength: 3 }),
      short("ab", 4),
      fc.option(short("ab", 4), { nil: undefined }),
      (rules, event, model) => {
        const isCovered =
          rules.length === 0 ||
          rules.some(
            (matchRule) =>
              (matchRule.event === undefined || matchesNaively(matchRule.event, event)) &&
              (matchRule.model === undefined || (model !== undefined && matchesNaively(matchRule.model, model))),
          );
        expect(rulesCover(rules, event, model)).toBe(isCovered);
      },
    ),
    { numRuns: 2_000 },
  );
});

it("rules that name a model, even *, need an event with a model", () => {
  expect(rulesCover([{ model: "*" }], "chat", undefined)).toBe(false);
  expect(rulesCover([{ event: "chat", model: "*" }], "chat", undefined)).toBe(false);
  expect(rulesCover([{ event: "chat", model: "*" }], "chat", "m")).toBe(true);
  expect(rulesCover([{ model: "gpt-*" }], "anything", "gpt-5")).toBe(true);
});

it("rules pass the event filter by their events alone: models are not considered", () => {
  expect(rulesPassFilter([], "chat")).toBe(true);
  expect(rulesPassFilter([], "cha*")).toBe(true);
  expect(rulesPassFilter([{ model: "gpt-*" }], "chat")).toBe(true);
  expect(rulesPassFilter([{ event: "chat", model: "gpt-*" }], "chat")).toBe(true);
  expect(rulesPassFilter([{ event: "chat" }], "image")).toBe(false);
  expect(rulesPassFilter([{ event: "image" }, { event: "chat" }], "chat")).toBe(true);
});

it("rules pass a filter that is a name if they cover it, and a filter that is a glob if some name matches both", () => {
  expect(rulesPassFilter([{ event: "chat.*" }], "chat.done")).toBe(true);
  expect(rulesPassFilter([{ event: "chat.*" }], "chat")).toBe(false);
  expect(rulesPassFilter([{ event: "chat.*" }], "*.done")).toBe(true);
  expect(rulesPassFilter([{ event: "chat.*" }], "c*")).toBe(true);
  expect(rulesPassFilter([{ event: "chat.*" }], "chatter*")).toBe(false);
  expect(rulesPassFilter([{ event: "chat.done" }], "chat.*")).toBe(true);
  expect(rulesPassFilter([{ event: "chat.done" }], "image.*")).toBe(false);
});

it("rules all pass the filter *", () => {
  fc.assert(fc.property(fc.array<MatchRule>(rule), (rules) => rulesPassFilter(rules, "*")));
});

import { expect, it } from "vitest";
import { globMatches } from "../../src/books/amounts/match.ts";
import { suggestGlobs, testRules } from "../../src/catalog/insert-pack.ts";

it("the globs that are suggested for a name all match it, narrowest first", () => {
  expect(suggestGlobs("chat.message.sent")).toEqual(["chat.message.sent", "chat.message.*", "chat.*", "*"]);
  for (const name of ["a", "*", "a/b:c_d-e", ".", "chat."]) {
    for (const glob of suggestGlobs(name)) expect(globMatches(glob, name), `${glob} covers ${name}`).toBe(true);
  }
});

it("the globs that are suggested for a name are at most twelve, for a name of any form", () => {
  for (const name of [".".repeat(8_000), "a.b".repeat(3_000), "plain"]) {
    const globs = suggestGlobs(name);
    expect(globs.length).toBeLessThanOrEqual(12);
    for (const glob of globs) expect(globMatches(glob, name)).toBe(true);
  }
});

const rules = [{ event: "chat.*", model: "large-*" }, { event: "image" }];

it("the test of rules names the rule that covers an event, or the rules that would", () => {
  expect(testRules(rules, "image", undefined)).toEqual({
    isCovered: true,
    why: "The rule for event image matches.",
  });
  expect(testRules(rules, "chat.a", "large-1").isCovered).toBe(true);
  expect(testRules(rules, "chat.a", "small-1").why).toContain("Matching models would be: small-1, small-*, *.");
  expect(testRules(rules, "chat.a", undefined).why).toContain("The event has no model.");
  expect(testRules(rules, "video.b", undefined).why).toContain(
    "No rule matches. Matching rules would be: video.b, video.*, *.",
  );
  expect(testRules([], "anything", undefined).isCovered).toBe(true);
  expect(testRules([{ model: "m" }], "e", undefined)).toMatchObject({ isCovered: false });
});

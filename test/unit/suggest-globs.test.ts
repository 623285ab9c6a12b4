import { describe, expect, it } from "vitest";
import { globMatches } from "../../src/books/amounts/match.ts";
import { suggestGlobs, testRules } from "../../src/catalog/packs/create.ts";

describe("the globs that are suggested for a name", () => {
  it("all cover it, narrowest first", () => {
    expect(suggestGlobs("chat.message.sent")).toEqual(["chat.message.sent", "chat.message.*", "chat.*", "*"]);
    for (const name of ["a", "*", "a/b:c_d-e", ".", "chat."]) {
      for (const glob of suggestGlobs(name)) expect(globMatches(glob, name), `${glob} covers ${name}`).toBe(true);
    }
  });
});

describe("trying rules", () => {
  const rules = [{ event: "chat.*", model: "large-*" }, { event: "image" }];

  it("shows which rule covers an event, or which glob would", () => {
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
});

import { describe, expect, it } from "vitest";
import { fragment, statement } from "../../src/db/sql.ts";

describe("a statement", () => {
  it("numbers each name once, in the order in which names first stand", () => {
    const find = statement<{ user: string; at: number }>`SELECT :user, :at WHERE x = :user`;
    expect(find({ at: 7, user: "ada" })).toEqual({ text: "SELECT ?1, ?2 WHERE x = ?1", params: ["ada", 7] });
  });

  it("leaves a colon in a quoted text alone, also behind a doubled quote", () => {
    const find = statement<{ at: number }>`SELECT ',"name":', '%H:%M:%S', 'it''s :not', :at`;
    expect(find({ at: 7 }).text).toBe(`SELECT ',"name":', '%H:%M:%S', 'it''s :not', ?1`);
  });

  it("leaves out its line breaks, but none of a quoted text", () => {
    const find = statement<{ at: number }>`
      SELECT 'two  spaces
',   :at
      WHERE 1`;
    expect(find({ at: 7 }).text).toBe(" SELECT 'two  spaces\n', ?1 WHERE 1");
  });

  it("takes fragments with names of their own", () => {
    const ofUser = fragment`user_id = :user`;
    expect(statement<{ user: string }>`SELECT 1 WHERE ${ofUser}`({ user: "ada" }).params).toEqual(["ada"]);
  });

  it("refuses to be sent without one of its values, and takes null for one", () => {
    const find = statement<{ user: string | null }>`SELECT :user`;
    expect(() => find({} as { user: string })).toThrow("user");
    expect(find({ user: null }).params).toEqual([null]);
  });
});

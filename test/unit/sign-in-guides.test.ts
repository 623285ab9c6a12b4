import { readdirSync, readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { setEndUserAuthInput } from "../../src/api/apps/set-end-user-auth.ts";
import { TOKEN_REJECTIONS } from "../../src/auth/jwt.ts";

const pages = readdirSync("docs/sign-in").map((name) => [name, readFileSync(`docs/sign-in/${name}`, "utf8")] as const);

it("the sign-in guides are one short page for each sign-in service, and one for your own sessions", () => {
  const services = ["auth0", "clerk", "cognito", "entra", "firebase", "keycloak", "supabase", "workos"];
  const names = [...services, "your-own"].map((name) => `${name}.md`);
  expect(pages.map(([name]) => name).sort()).toEqual(names);
  for (const [name, text] of pages) expect(text.split("\n").length, name).toBeLessThan(80);
});

it.each(pages)(
  "the sign-in guides show in %s a setting that Purser accepts, and only reasons that Purser reports",
  (_name, text) => {
    const [, setting = ""] = /-d '(\{.*\})'/.exec(text) ?? [];
    expect(setEndUserAuthInput.safeParse(JSON.parse(setting)).error).toBeUndefined();
    const reasons = [...text.matchAll(/^- (`\w+`(?: or `\w+`)?):/gm)].flatMap(([, names = ""]) =>
      names.match(/\w+_?\w+/g),
    );
    expect(reasons.length).toBeGreaterThan(1);
    expect(
      reasons.filter((reason) => reason !== "or" && !(TOKEN_REJECTIONS as readonly unknown[]).includes(reason)),
    ).toEqual([]);
  },
);

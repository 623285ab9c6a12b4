import { readdirSync, readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { setEndUserAuthInput } from "../../src/api/apps/set-end-user-auth.ts";
import { readPayerClaim } from "../../src/auth/user-claim.ts";

const NOW_MS = Date.UTC(2026, 0, 16, 8, 30);
const iat = NOW_MS / 1_000 - 60;

/** For each service of docs/sign-in, the claim that names a team, and a token's claims with it. */
const TEAM_CLAIMS = {
  auth0: ["org_id", { sub: "auth0|1", org_id: "org_9ybsU1dN2dKfDkBi" }],
  clerk: ["o.id", { sub: "user_1", o: { id: "org_9ybsU1dN2dKfDkBi", rol: "admin", slg: "acme" } }],
  cognito: ["org_id", { sub: "1-2", "cognito:groups": ["a"], org_id: "org_9ybsU1dN2dKfDkBi" }],
  entra: ["tid", { sub: "s", oid: "o", tid: "org_9ybsU1dN2dKfDkBi" }],
  firebase: ["firebase.tenant", { sub: "u", firebase: { tenant: "org_9ybsU1dN2dKfDkBi", identities: {} } }],
  keycloak: ["org_ids", { sub: "u", org_ids: ["org_9ybsU1dN2dKfDkBi"] }],
  supabase: ["app_metadata.org_id", { sub: "u", app_metadata: { org_id: "org_9ybsU1dN2dKfDkBi" } }],
  workos: ["org_id", { sub: "user_1", org_id: "org_9ybsU1dN2dKfDkBi", role: "member" }],
  "your-own": ["team", { sub: "u", team: "org_9ybsU1dN2dKfDkBi" }],
} as const;

it("every sign-in guide has a claim that names a member's team", () => {
  const guides = readdirSync("docs/sign-in").map((name) => name.replace(".md", ""));
  expect(guides.sort()).toEqual(Object.keys(TEAM_CLAIMS).sort());
});

it.each(Object.entries(TEAM_CLAIMS))(
  "a token of %s names the payer, with the setting of its guide, and none a day later or without the claim",
  (name, [payerClaim, claims]) => {
    const [, text = ""] = /-d '(\{.*\})'/.exec(readFileSync(`docs/sign-in/${name}.md`, "utf8")) ?? [];
    const given = JSON.parse(text);
    const sent = { ...given, setting: { ...given.setting, payerClaim, payerPrefix: "team:" } };
    const { setting } = setEndUserAuthInput.parse(sent);
    if (setting === null) throw new Error("a guide has a setting");
    expect(readPayerClaim({ ...claims, iat }, setting, NOW_MS)).toEqual(["team:org_9ybsU1dN2dKfDkBi"]);
    expect(readPayerClaim({ ...claims, iat: iat - 86_400 }, setting, NOW_MS)).toEqual([]);
    expect(readPayerClaim({ sub: claims.sub, iat }, setting, NOW_MS)).toEqual([]);
  },
);

import { env } from "cloudflare:workers";
import { exportJWK, generateKeyPair, type JWK, SignJWT } from "jose";
import { beforeEach, describe, expect, it, vi } from "vitest";
import { END_USER_SECRET, jwksSetting } from "../../support/end-user-setting.ts";
import { APPS } from "../../support/paths.ts";
import { expectError } from "../../support/rejections.ts";
import { Clock, makeApp, makeClient } from "../../support/world.ts";

const clock = new Clock();
// The platform's cache uses real time.
clock.ms = Date.now();
const call = makeClient(clock);
const exp = Math.floor(clock.ms / 1_000) + 600;

type Claims = Readonly<Record<string, unknown>>;

let publishedKeys: JWK[] = [];
beforeEach(() => {
  vi.spyOn(globalThis, "fetch").mockImplementation(async () => Response.json({ keys: publishedKeys }));
});

/** Returns a function that calls with a token of these claims, and returns "200" or the reason of the rejection. */
async function asking({ keys }: { readonly keys: { readonly pk_live: string } }, setting: { readonly type: string }) {
  const isShared = setting.type === "hs256";
  const pair = await generateKeyPair("RS256", { extractable: true });
  const kid = crypto.randomUUID();
  if (!isShared) publishedKeys = [{ ...(await exportJWK(pair.publicKey)), kid, alg: "RS256" }];
  const signingKey = isShared ? new TextEncoder().encode(END_USER_SECRET) : pair.privateKey;
  return async (claims: Claims, userId = "u"): Promise<string> => {
    const alg = isShared ? "HS256" : "RS256";
    const token = await new SignJWT({ exp, ...claims }).setProtectedHeader({ alg, kid }).sign(signingKey);
    const path = `/api/v1/credits?userId=${encodeURIComponent(userId)}`;
    const answer = await call("GET", path, { key: keys.pk_live, headers: { "x-user-token": token } });
    if (answer.status === 200) return "200";
    if (answer.status === 403) return answer.body.error.code;
    expectError(answer, "invalid_user_token");
    expect(JSON.stringify(answer.body)).not.toContain(token);
    return answer.body.error.details.reason;
  };
}

/** Sets a setting by the API. */
async function ask(setting: { readonly type: string } & Record<string, unknown>) {
  const app = await makeApp();
  const body = { mode: "live", setting };
  const answer = await call("PUT", `${APPS}/${app.appId}/end-user-auth`, { key: env.ADMIN_TOKEN, body });
  expect(answer.status, JSON.stringify(answer.body)).toBe(200);
  return asking(app, setting);
}

const hs256 = { type: "hs256", secret: END_USER_SECRET } as const;
const newUrl = () => `https://keys.example/${crypto.randomUUID()}`;

it.each(["email", "work_email", "phone", "phone_number", "https://example.com/email"])(
  "a claim with an e-mail address or a phone number names the user in %s only if its sibling says that it is verified",
  async (claim) => {
    const reasonFor = await ask({ ...hs256, claim });
    for (const verified of [undefined, null, false, "false", 1, "1", "TRUE", {}, [true]]) {
      expect(await reasonFor({ [claim]: "u", [`${claim}_verified`]: verified }), String(verified)).toBe("claim");
    }
    for (const verified of [true, "true"]) {
      expect(await reasonFor({ [claim]: "u", [`${claim}_verified`]: verified })).toBe("200");
    }
  },
);

it("a claim with an e-mail address or a phone number has its sibling beside it in a path", async () => {
  const reasonFor = await ask({ ...hs256, claim: "user.email" });
  expect(await reasonFor({ user: { email: "u" }, email_verified: true, "user.email_verified": true })).toBe("claim");
  expect(await reasonFor({ user: { email: "u", email_verified: true } })).toBe("200");
});

it("a claim with an e-mail address or a phone number names the user as it comes if the setting trusts unverified ones", async () => {
  const reasonFor = await ask({ ...hs256, claim: "email", trustUnverified: true });
  for (const email_verified of [undefined, false, true]) {
    expect(await reasonFor({ email: "u", email_verified })).toBe("200");
  }
  expect(await reasonFor({ email_verified: true })).toBe("claim");
});

it("a claim with an e-mail address or a phone number has no effect on another claim that names the user", async () => {
  const reasonFor = await ask(hs256);
  expect(await reasonFor({ sub: "u", email: "v", email_verified: false })).toBe("200");
});

it("the name of a claim is a path of own members where no claim has that name", async () => {
  const reasonFor = await ask({ ...hs256, claim: "o.id" });
  expect(await reasonFor({ o: { id: "u" } })).toBe("200");
  expect(await reasonFor({ "o.id": "u", o: { id: "v" } })).toBe("200");
  for (const claims of [{ "o.id": null, o: { id: "u" } }, { o: ["u"] }, { o: "u" }, { o: null }, { id: "u" }, {}]) {
    expect(await reasonFor(claims), JSON.stringify(claims)).toBe("claim");
  }
});

it.each(["toString.name", "o.constructor.name", "__proto__.id", "o.length"])(
  "the name of a claim reads no inherited member: %s",
  async (claim) => {
    const reasonFor = await ask({ ...hs256, claim });
    for (const userId of ["toString", "Object", "u"]) {
      expect(await reasonFor({ sub: "u", o: {} }, userId)).toBe("claim");
    }
  },
);

it.each([
  ["https://example.com/o.id", { "https://example": { "com/o": { id: "u" } } }],
  ["app:o.id", { "app:o": { id: "u" } }],
])("the name of a claim is never a path with a colon or a slash: %s", async (claim, likePath) => {
  const reasonFor = await ask({ ...hs256, claim });
  expect(await reasonFor(likePath)).toBe("claim");
  expect(await reasonFor({ [claim]: "u" })).toBe("200");
});

describe.each(["jwks", "hs256"] as const)("the audience of a setting of type %s", (type) => {
  const setting = () => ({ ...(type === "hs256" ? hs256 : jwksSetting(newUrl())), issuer: "i", audience: "desk" });
  const good = { sub: "u", iss: "i" };

  it("is in `aud`, where the token has one", async () => {
    const reasonFor = await ask(setting());
    for (const aud of ["desk", ["other", "desk"]]) expect(await reasonFor({ ...good, aud })).toBe("200");
    for (const aud of ["other", ["other"], [["desk"]], [null], 7, {}]) {
      expect(await reasonFor({ ...good, aud, azp: "desk", client_id: "desk" }), JSON.stringify(aud)).toBe("audience");
    }
  });

  it.each([undefined, null, "", []])("is `azp`, else `client_id`, where `aud` is %j", async (aud) => {
    const reasonFor = await ask(setting());
    expect(await reasonFor({ ...good, aud, azp: "desk" })).toBe("200");
    expect(await reasonFor({ ...good, aud, client_id: "desk" })).toBe("200");
    expect(await reasonFor({ ...good, aud, azp: "other", client_id: "desk" })).toBe("audience");
    expect(await reasonFor({ ...good, aud, azp: ["desk"] })).toBe("audience");
    expect(await reasonFor({ ...good, aud })).toBe("audience");
  });
});

it("a setting with the audience null accepts every audience of its issuer, and no other issuer", async () => {
  const reasonFor = await ask({ ...jwksSetting(newUrl()), issuer: "i" });
  for (const aud of ["a", ["b"], undefined]) expect(await reasonFor({ sub: "u", iss: "i", aud })).toBe("200");
  for (const iss of ["j", undefined, null]) expect(await reasonFor({ sub: "u", iss })).toBe("issuer");
});

it("`{tid}` in the issuer stands for the token's tenant", async () => {
  const issuer = "https://login.microsoftonline.com/{tid}/v2.0";
  const reasonFor = await ask({ ...jwksSetting(newUrl()), issuer, audience: "desk" });
  const good = { sub: "u", aud: "desk", tid: "9188-40", iss: "https://login.microsoftonline.com/9188-40/v2.0" };
  expect(await reasonFor(good)).toBe("200");
  for (const claims of [
    { tid: "other" },
    { tid: undefined },
    { tid: undefined, iss: undefined },
    { tid: undefined, iss: null },
    { tid: undefined, iss: issuer },
    { tid: "", iss: "https://login.microsoftonline.com//v2.0" },
    { tid: "{tid}", iss: issuer },
    { tid: "a/b", iss: "https://login.microsoftonline.com/a/b/v2.0" },
    { tid: "$&", iss: issuer },
    { tid: ["9188-40"] },
  ]) {
    expect(await reasonFor({ ...good, ...claims }), JSON.stringify(claims)).toBe("issuer");
  }
});

const older = async (setting: { readonly type: "jwks" } & Record<string, unknown>) => {
  const app = await makeApp();
  await env.DB.prepare("UPDATE environments SET end_user_auth = ? WHERE id = ?")
    .bind(JSON.stringify(setting), app.environments.live.id)
    .run();
  return { app, reasonFor: await asking(app, setting) };
};

it("a setting that was stored under older rules goes on as it was until it is changed without an issuer and an audience", async () => {
  for (const url of [newUrl(), "https://login.windows.net/common/discovery/keys"]) {
    const { app, reasonFor } = await older({ type: "jwks", url });
    expect(await reasonFor({ sub: "u", iss: "any" })).toBe("200");
    expect(await reasonFor({ sub: "u" }, "v")).toBe("forbidden");
    const body = { mode: "live", setting: { type: "jwks", url } };
    const path = `${APPS}/${app.appId}/end-user-auth`;
    expectError(await call("PUT", path, { key: env.ADMIN_TOKEN, body }), "invalid_request", "setting.issuer");
    expect(await reasonFor({ sub: "u", iss: "any" })).toBe("200");
  }
});

it("a setting that was stored under older rules goes on as it was until it is changed with an e-mail address that only an explicit false makes unverified", async () => {
  const { app, reasonFor } = await older({ type: "jwks", url: newUrl(), claim: "email" });
  for (const email_verified of [true, undefined]) expect(await reasonFor({ email: "u", email_verified })).toBe("200");
  for (const email_verified of [false, "false"]) expect(await reasonFor({ email: "u", email_verified })).toBe("claim");
  const body = { mode: "live", setting: { ...jwksSetting(newUrl()), claim: "email" } };
  await call("PUT", `${APPS}/${app.appId}/end-user-auth`, { key: env.ADMIN_TOKEN, body });
  const good = { email: "u", iss: body.setting.issuer };
  expect(await reasonFor(good)).toBe("claim");
  expect(await reasonFor({ ...good, email_verified: true })).toBe("200");
});

it("a setting that was stored under older rules goes on as it was until it is changed with a claim that users write, a name that is no path, and `aud` alone", async () => {
  const written = await older({ type: "jwks", url: newUrl(), claim: "custom:id" });
  expect(await written.reasonFor({ "custom:id": "u" })).toBe("200");
  const dotted = await older({ type: "jwks", url: newUrl(), claim: "o.id", audience: "desk" });
  expect(await dotted.reasonFor({ "o.id": "u", aud: "desk" })).toBe("200");
  expect(await dotted.reasonFor({ o: { id: "u" }, aud: "desk" })).toBe("claim");
  expect(await dotted.reasonFor({ "o.id": "u", azp: "desk" })).toBe("audience");
});

/** A setting as the guide in docs/sign-in says, and the claims of a token as the service issues it. */
interface Service {
  readonly setting: Claims;
  readonly claims: Claims;
  readonly userId: string;
  /** Claims of a token that is not for this application. */
  readonly foreign: Claims;
}

const iat = exp - 600;
const TENANT = "72f988bf-86f1-41af-91ab-2d7cd011db47";
const SERVICES: Readonly<Record<string, Service>> = {
  Clerk: {
    setting: { issuer: "https://clerk.example.com", audience: "https://app.example.com" },
    claims: {
      azp: "https://app.example.com",
      fva: [2, -1],
      iat,
      iss: "https://clerk.example.com",
      jti: "a1b2",
      nbf: iat - 10,
      o: { id: "org_123", rol: "admin", slg: "acme" },
      sid: "sess_123",
      sub: "user_2abc",
      v: 2,
    },
    userId: "user_2abc",
    foreign: { azp: "https://other.example.com" },
  },
  Auth0: {
    setting: {
      issuer: "https://tenant.eu.auth0.com/",
      audience: "https://api.example.com",
      claim: "https://example.com/user_id",
    },
    claims: {
      iss: "https://tenant.eu.auth0.com/",
      sub: "auth0|5f7c8ec7c33c6c004bbafe82",
      aud: ["https://api.example.com", "https://tenant.eu.auth0.com/userinfo"],
      iat,
      azp: "my_client_id",
      scope: "openid profile",
      "https://example.com/user_id": "user-7",
    },
    userId: "user-7",
    foreign: { aud: ["https://other.example.com"], azp: "https://api.example.com" },
  },
  Supabase: {
    setting: { issuer: "https://project.supabase.co/auth/v1", audience: "authenticated" },
    claims: {
      aal: "aal1",
      amr: [{ method: "password", timestamp: iat }],
      app_metadata: { provider: "email", providers: ["email"] },
      aud: "authenticated",
      email: "u@example.com",
      iat,
      is_anonymous: false,
      iss: "https://project.supabase.co/auth/v1",
      phone: "",
      role: "authenticated",
      session_id: "9f1d",
      sub: "3d1b6c2e-4a3d-4d5e-9f7a-0c1d2e3f4a5b",
      user_metadata: { email_verified: true, sub: "victim" },
    },
    userId: "3d1b6c2e-4a3d-4d5e-9f7a-0c1d2e3f4a5b",
    foreign: { aud: "anon" },
  },
  Firebase: {
    setting: { issuer: "https://securetoken.google.com/desk-1", audience: "desk-1" },
    claims: {
      iss: "https://securetoken.google.com/desk-1",
      aud: "desk-1",
      auth_time: iat,
      user_id: "Xy7",
      sub: "Xy7",
      iat,
      email: "u@example.com",
      email_verified: false,
      firebase: { identities: { email: ["u@example.com"] }, sign_in_provider: "password" },
    },
    userId: "Xy7",
    foreign: { aud: "desk-2" },
  },
  WorkOS: {
    setting: { issuer: "https://api.workos.com/user_management/client_01", audience: "client_01" },
    claims: {
      iss: "https://api.workos.com/user_management/client_01",
      sub: "user_01HBEQ",
      act: { sub: "admin@example.com" },
      org_id: "org_01",
      role: "member",
      permissions: [],
      client_id: "client_01",
      sid: "session_01",
      jti: "01HB",
      iat,
    },
    userId: "user_01HBEQ",
    foreign: { client_id: "client_02" },
  },
  Cognito: {
    setting: { issuer: "https://cognito-idp.eu-west-1.amazonaws.com/eu-west-1_Abc", audience: "client1" },
    claims: {
      sub: "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee",
      iss: "https://cognito-idp.eu-west-1.amazonaws.com/eu-west-1_Abc",
      client_id: "client1",
      origin_jti: "x",
      event_id: "y",
      token_use: "access",
      scope: "openid",
      auth_time: iat,
      iat,
      jti: "z",
      username: "u",
    },
    userId: "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee",
    foreign: { client_id: "client2" },
  },
  "Cognito (ID token)": {
    setting: {
      issuer: "https://cognito-idp.eu-west-1.amazonaws.com/eu-west-1_Abc",
      audience: "client1",
      claim: "email",
    },
    claims: {
      sub: "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee",
      email_verified: "true",
      iss: "https://cognito-idp.eu-west-1.amazonaws.com/eu-west-1_Abc",
      "cognito:username": "u",
      aud: "client1",
      token_use: "id",
      iat,
      email: "u@example.com",
    },
    userId: "u@example.com",
    foreign: { aud: "client2" },
  },
  Entra: {
    setting: { issuer: "https://login.microsoftonline.com/{tid}/v2.0", audience: "api-client-id", claim: "oid" },
    claims: {
      aud: "api-client-id",
      iss: `https://login.microsoftonline.com/${TENANT}/v2.0`,
      iat,
      nbf: iat,
      azp: "spa-client-id",
      name: "Ana",
      oid: "690222be-ff1a-4d56-abd1-7e4f7d38e474",
      preferred_username: "ana@example.com",
      scp: "read",
      sub: "HKZpfaHyWadeOouYlitjrI",
      tid: TENANT,
      ver: "2.0",
    },
    userId: "690222be-ff1a-4d56-abd1-7e4f7d38e474",
    foreign: { aud: "other-client-id" },
  },
  Keycloak: {
    setting: { issuer: "https://sso.example.com/realms/main", audience: "web" },
    claims: {
      iat,
      jti: "onrtac:1",
      iss: "https://sso.example.com/realms/main",
      sub: "f1a2b3c4-0000-4000-8000-000000000000",
      typ: "Bearer",
      azp: "web",
      sid: "s",
      acr: "1",
      "allowed-origins": ["https://app.example.com"],
      realm_access: { roles: ["offline_access"] },
      scope: "email profile",
      email_verified: true,
      preferred_username: "ana",
      email: "u@example.com",
    },
    userId: "f1a2b3c4-0000-4000-8000-000000000000",
    foreign: { azp: "other" },
  },
};

describe.each(Object.entries(SERVICES))("a token of %s", (_service, { setting, claims, userId, foreign }) => {
  it("names its user by the setting of its guide, and is rejected if it is for another application or issuer", async () => {
    const reasonFor = await ask({ type: "jwks", url: newUrl(), ...setting });
    expect(await reasonFor(claims, userId)).toBe("200");
    expect(await reasonFor(claims, "victim")).toBe("forbidden");
    expect(await reasonFor({ ...claims, ...foreign }, userId)).toBe("audience");
    expect(await reasonFor({ ...claims, iss: `${claims.iss}x` }, userId)).toBe("issuer");
  });
});

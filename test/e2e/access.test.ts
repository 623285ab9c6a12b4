import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type KeyServer, makeSigningKey, type SigningKey, signToken, startKeyServer } from "./support/key-server.ts";
import { ADMIN_TOKEN, type Server, startServer } from "./support/server.ts";

const AUDIENCE = "f00dcafe".repeat(8);

describe("the dashboard behind Cloudflare Access", () => {
  let keys: KeyServer;
  let signing: SigningKey;
  let server: Server;
  let issuer: string;

  beforeAll(async () => {
    signing = await makeSigningKey("access", "RS256");
    keys = await startKeyServer([signing.jwk]);
    issuer = new URL(keys.url).origin;
    server = await startServer({ vars: { ACCESS_TEAM_DOMAIN: issuer, ACCESS_AUD: AUDIENCE } });
  });
  afterAll(async () => {
    await server.close();
    await keys.close();
  });

  const claims = () => ({ iss: issuer, aud: [AUDIENCE], sub: "admin-7", email: "admin@example.com" });
  const open = (assertion?: string, init: RequestInit = {}) =>
    fetch(`${server.url}/admin/apps`, {
      redirect: "manual",
      ...init,
      headers: { ...init.headers, ...(assertion === undefined ? {} : { "cf-access-jwt-assertion": assertion }) },
    });

  it("admits users whom Access admitted, without another sign-in", async () => {
    const answer = await open(await signToken(signing, claims()));
    expect(answer.status).toBe(200);
    expect(await answer.text()).toContain("Applications");
  });

  it("rejects everybody else: without an assertion, or with one by a stranger, for another audience or issuer, or expired", async () => {
    const stranger = await makeSigningKey("access", "RS256");
    const old = Math.floor(Date.now() / 1_000) - 3_600;
    for (const assertion of [
      undefined,
      "",
      "a.b.c",
      await signToken(stranger, claims()),
      await signToken(signing, { ...claims(), aud: ["another"] }),
      await signToken(signing, { ...claims(), iss: "https://other.cloudflareaccess.com" }),
      await signToken(signing, { ...claims(), exp: old }),
      await signToken(signing, { ...claims(), sub: "" }),
    ]) {
      expect((await open(assertion)).status).toBe(403);
    }
  });

  it("rejects to sign in with the admin token, which would bypass Access", async () => {
    const body = new URLSearchParams({ token: ADMIN_TOKEN });
    const answer = await fetch(`${server.url}/admin/sign-in`, { method: "POST", body, redirect: "manual" });
    expect([answer.status, answer.headers.get("set-cookie")]).toEqual([403, null]);
  });

  it("accepts a form only with the token of the user whom Access admitted", async () => {
    const mine = await signToken(signing, claims());
    const page = await (await open(mine)).text();
    const _form = /name="_form" value="([^"]+)"/.exec(page)?.[1] ?? "";
    const post = (assertion: string, token: string) =>
      open(assertion, { method: "POST", body: new URLSearchParams({ _form: token, name: "Made" }) });
    expect((await post(mine, "")).status).toBe(403);
    expect((await post(await signToken(signing, { ...claims(), sub: "admin-8" }), _form)).status).toBe(403);
    expect((await post(mine, _form)).status).toBe(303);
  });

  it("names in the audit the e-mail address from Access, or else the subject", async () => {
    const madeBy = async (who: object) => {
      const assertion = await signToken(signing, { iss: issuer, aud: [AUDIENCE], sub: "admin-7", ...who });
      const _form = /name="_form" value="([^"]+)"/.exec(await (await open(assertion)).text())?.[1] ?? "";
      const made = await open(assertion, { method: "POST", body: new URLSearchParams({ _form, name: "Audited" }) });
      const appId = /app_\w+/.exec(made.headers.get("location") ?? "")?.[0];
      const headers = { authorization: `Bearer ${ADMIN_TOKEN}` };
      return (await (await fetch(`${server.url}/api/v1/admin/apps/${appId}/audit`, { headers })).json()) as object;
    };
    for (const [who, by] of [
      [{ email: "admin@example.com" }, "admin@example.com"],
      [{ email: "" }, "admin-7"],
      [{}, "admin-7"],
    ] as const) {
      expect(await madeBy(who)).toMatchObject({ entries: [{ by, action: "app.created" }], nextCursor: null });
    }
  });

  it("does not guard the administration API, which accepts the admin token", async () => {
    const headers = { authorization: `Bearer ${ADMIN_TOKEN}` };
    expect((await fetch(`${server.url}/api/v1/admin/apps`, { headers })).status).toBe(200);
  });
});

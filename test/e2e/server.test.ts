import { beforeAll, expect, it } from "vitest";
import { type Server, sharedServer } from "./support/server.ts";

let server: Server;
beforeAll(async () => {
  server = await sharedServer();
});

it("the built Worker returns 200 from /health with a migrated database", async () => {
  const answer = await fetch(`${server.url}/health`);
  expect([answer.status, await answer.json()]).toEqual([200, { status: "ok" }]);
});

it("the built Worker serves its dashboard under each spelling of its path, and nowhere else", async () => {
  const ask = async (path: string, method = "GET") => {
    const { status, headers } = await fetch(server.url + path, { method, redirect: "manual" });
    return [status, headers.get("location") ?? headers.get("allow"), headers.has("x-request-id")];
  };
  for (const path of ["/admin", "/%61dmin"]) expect(await ask(path)).toEqual([303, "/admin/apps", true]);
  for (const path of ["/admin/sign-in", "/%61dmin/sign-in?next=%2F"])
    expect(await ask(path)).toEqual([200, null, true]);
  expect(await ask("/admin/apps")).toEqual([303, "/admin/sign-in?next=%2Fadmin%2Fapps", true]);
  expect(await ask("/admin/sign-in", "PUT")).toEqual([405, "GET, HEAD, POST", true]);
  for (const path of ["/administration", "/admin/nowhere", "/api/admin"])
    expect(await ask(path)).toEqual([404, null, true]);
});

it("the built Worker returns an empty list for a user without credits", async () => {
  const app = await server.makeApp();
  const answer = await fetch(`${server.url}/api/v1/credits?userId=u1`, {
    headers: { authorization: `Bearer ${app.keys.sk_test}` },
  });
  expect([answer.status, await answer.json()]).toEqual([200, { credits: [] }]);
});

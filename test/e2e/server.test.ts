import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Server, startServer } from "./support/server.ts";

let server: Server;
beforeAll(async () => {
  server = await startServer();
});
afterAll(() => server.close());

describe("the built Worker", () => {
  it("answers on its health page, over a migrated database", async () => {
    const answer = await fetch(`${server.url}/health`);
    expect([answer.status, await answer.json()]).toEqual([200, { status: "ok" }]);
  });

  it("lists what a key may see", async () => {
    const app = await server.makeApp();
    const answer = await fetch(`${server.url}/api/v1/credits?userId=u1`, {
      headers: { authorization: `Bearer ${app.keys.sk_test}` },
    });
    expect([answer.status, await answer.json()]).toEqual([200, { credits: [] }]);
  });
});

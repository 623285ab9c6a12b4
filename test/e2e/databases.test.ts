import { afterAll, beforeAll, expect, it } from "vitest";
import { ADMIN_TOKEN, type Server, startServer } from "./support/server.ts";

let server: Server;
beforeAll(async () => {
  server = await startServer({ databases: 2 });
});
afterAll(() => server.close());

async function send(key: string, method: string, path: string, body?: object) {
  const answer = await fetch(`${server.url}/api/v1${path}`, {
    method,
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  expect(answer.status, `${method} ${path}`).toBe(200);
  // The assertions check its shape.
  return (await answer.json()) as Record<string, unknown> & { key: string; appId: string };
}

it("the built Worker serves applications in both of its databases", async () => {
  for (const [database, digit] of [
    ["DB", "0"],
    ["DB_1", "1"],
  ] as const) {
    const { appId } = await send(ADMIN_TOKEN, "POST", "/admin/apps", { name: "Both", database });
    expect(appId.at(-1)).toBe(digit);
    const at = `/admin/apps/${appId}`;
    const { key } = await send(ADMIN_TOKEN, "POST", `${at}/keys`, { kind: "secret", mode: "live" });
    await send(ADMIN_TOKEN, "POST", `${at}/packs`, { packName: "P", items: [], unit: "tokens" });
    await send(key, "POST", "/credits/grant", { userId: "u", packId: "P", quantity: 5 });
    expect(await send(key, "GET", "/credits?userId=u")).toMatchObject({ credits: [{ remaining: 5 }] });
    await send(ADMIN_TOKEN, "DELETE", `${at}/keys/${(await keysOf(at))[0]?.keyId}`);
    const refused = await fetch(`${server.url}/api/v1/credits?userId=u`, {
      headers: { authorization: `Bearer ${key}` },
    });
    expect(refused.status).toBe(401);
  }
});

async function keysOf(at: string): Promise<{ keyId: string }[]> {
  return (await send(ADMIN_TOKEN, "GET", `${at}/keys`)).keys as { keyId: string }[];
}

import { env } from "cloudflare:workers";
import { afterAll, expect, it } from "vitest";
import { EVIL, openDashboard } from "../../support/browse.ts";
import { expectLedgerInvariants } from "../../support/invariants.ts";
import { Clock, makeApp, makeClient, makeOpenAmountPack } from "../../support/world.ts";

afterAll(expectLedgerInvariants);

it("users are listed with the name and the address of the person with their id, which say if a browser set them", async () => {
  const clock = new Clock();
  const app = await makeApp();
  const { read } = await openDashboard(app, clock);
  const call = makeClient(clock);
  const key = app.keys.sk_live;
  const packId = await makeOpenAmountPack(app.appId, "Any", "count");
  for (const userId of ["ada", "bob", "eve"]) {
    const body = { userId, packId, quantity: 5 };
    expect((await call("POST", "/api/v1/credits/grant", { key, body })).status).toBe(200);
  }
  const store = (distinctId: string, isVerified: boolean, properties: string) =>
    env.DB.prepare(
      "INSERT INTO id_properties (environment_id, distinct_id, is_verified, properties) VALUES (CAST(? AS INTEGER), ?, ?, ?)",
    )
      .bind(app.environments.live.id, distinctId, isVerified ? 1 : 0, properties)
      .run();
  await store("ada", true, JSON.stringify({ name: `Ada ${EVIL}`, email: "ada@example.com" }));
  await store("ada", false, JSON.stringify({ name: "Mallory", email: "mallory@example.com" }));
  await store("bob", false, JSON.stringify({ name: 7, email: "bob@example.com" }));
  await store("eve", true, `{"email":"deep@example.com","a":${"[".repeat(2_000)}${"]".repeat(2_000)}}`);

  const { text } = await read("users");
  expect(text).toContain("Ada &quot;&gt;&lt;img src=x onerror=alert(1)&gt; · ada@example.com</span>");
  expect(text).toContain("bob@example.com (not verified)</span>");
  for (const hidden of ["allory", "deep@example.com"]) expect(text).not.toContain(hidden);
  const lines = (await read("users.csv?sort=userId&order=asc")).text.replace(/^\ufeff/, "").split("\r\n");
  expect(lines[0]).toContain("userId,name,email,");
  expect(lines[2]).toContain('"bob",,"bob@example.com",');
  expect((await read("users?userId=ada")).text).toContain("· ada@example.com</span>");
});

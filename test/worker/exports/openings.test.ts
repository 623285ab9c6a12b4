import { expect, it } from "vitest";
import { HOUR_MS } from "../../../src/lib/time.ts";
import { auditOf, linkTo } from "../../support/exports.ts";
import { expectError } from "../../support/rejections.ts";
import { seedPerson } from "../../support/seed-rows.ts";
import { Clock, makeApp, makeClient, startIsolate } from "../../support/world.ts";

it("a link opens 60 times an hour, and is then rejected, with nothing recorded", async () => {
  const clock = new Clock();
  const app = await makeApp();
  await seedPerson(app.environments.live, {}, ["ana", "bo"]);
  const purser = startIsolate(clock);
  const ask = async (link: string, method = "GET") => {
    const response = await purser.request(link, { method });
    return { status: response.status, headers: response.headers, body: method === "HEAD" ? "" : await response.text() };
  };
  const link = await linkTo(app, "ana", clock);
  for (let n = 0; n < 60; n++) expect((await ask(link)).status).toBe(200);
  const rows = (await auditOf(app, "ana")).length;
  const refused = await ask(link);
  expect([refused.status, JSON.parse(refused.body).error.code]).toEqual([429, "rate_limited"]);
  expect(refused.headers.get("retry-after")).toBe("3600");
  expect(refused.headers.get("cache-control")).toBe("no-store, private, no-transform");
  expect(refused.headers.get("content-disposition")).toContain("attachment");
  expect(await auditOf(app, "ana")).toHaveLength(rows);
  // HEAD is still answered, and other links still open.
  expect((await ask(link, "HEAD")).status).toBe(200);
  expect((await ask(await linkTo(app, "bo", clock))).status).toBe(200);
  clock.advance(HOUR_MS);
  expect((await ask(link)).status).toBe(200);
});

it("a revoked link is answered like an invalid one, however often it was opened", async () => {
  const call = makeClient(new Clock());
  const { keys } = await makeApp();
  const post = (path: string) => call("POST", `/api/v1/${path}`, { key: keys.sk_live, body: { distinctId: "ana" } });
  const { downloadUrl } = (await post("export-person")).body;
  for (let n = 0; n < 60; n++) expect((await call("GET", downloadUrl)).status).toBe(200);
  expect((await call("GET", downloadUrl)).status).toBe(429);

  await post("export-person/revoke");

  expectError(await call("GET", downloadUrl), "invalid_or_expired_token");
});

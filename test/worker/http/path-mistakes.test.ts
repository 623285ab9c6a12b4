import { expect, it } from "vitest";
import { type Mistake, testMistakes } from "../../support/mistakes.ts";
import { expectError } from "../../support/rejections.ts";
import { Clock, makeClient } from "../../support/world.ts";

const wrongPath = (path: string, suggestion: string, method = "GET"): Mistake => ({
  name: `${method} ${path}`,
  send: () => ({ method, path, ...(method === "GET" ? {} : { body: {} }) }),
  code: "not_found",
  names: [`\`${suggestion}\``, "/docs"],
});

testMistakes("a mistaken path is refused with the nearest path", [
  wrongPath("/api/v1/credits/", "/api/v1/credits"),
  wrongPath("/api/v1/credits/grant/", "/api/v1/credits/grant", "POST"),
  wrongPath("//api/v1//credits", "/api/v1/credits"),
  wrongPath("/credits", "/api/v1/credits"),
  wrongPath("/credits/grant", "/api/v1/credits/grant", "POST"),
  wrongPath("/v1/credits/grant", "/api/v1/credits/grant", "POST"),
  wrongPath("/api/credits/grant", "/api/v1/credits/grant", "POST"),
  wrongPath("/api/v2/credits", "/api/v1/credits"),
  wrongPath("/API/V1/Credits", "/api/v1/credits"),
  wrongPath("/api/v1/credit/grants", "/api/v1/credits/grant", "POST"),
  wrongPath("/api/v1/grant", "/api/v1/credits/grant", "POST"),
  wrongPath("/api/v1/events", "/api/v1/usage/events", "POST"),
  wrongPath("/api/v1/usage/event", "/api/v1/usage/events", "POST"),
  wrongPath("/api/v1/reservations", "/api/v1/usage/reservations", "POST"),
  wrongPath("/reservations/res_1/commit", "/api/v1/usage/reservations/{reservationId}/commit", "POST"),
  wrongPath("/api/v1/usage/reservations/res_1/commits", "/api/v1/usage/reservations/{reservationId}/commit", "POST"),
  wrongPath("/api/v1/export_person", "/api/v1/export-person", "POST"),
  wrongPath("/api/v1/exportPerson", "/api/v1/export-person", "POST"),
  wrongPath("/api/v1/apps/app_1/keys", "/api/v1/admin/apps/{appId}/keys", "POST"),
  wrongPath("/api/admin/apps/app_1/endUserAuth", "/api/v1/admin/apps/{appId}/end-user-auth", "PUT"),
  wrongPath("/api/v1/balances", "/api/v1/credits"),
  wrongPath("/api/v1/credits/ledger", "/api/v1/credits/history"),
  wrongPath("/api/v1/credits/consume", "/api/v1/usage/events", "POST"),
  wrongPath("/api/v1/packs", "/api/v1/admin/apps/{appId}/packs"),
  wrongPath("/swagger.json", "/api/v1/openapi.json"),
  wrongPath("/openapi.json", "/api/v1/openapi.json"),
  wrongPath("/healthz", "/health"),
]);

const wrongMethod = (method: string, path: string, right: string): Mistake => ({
  name: `${method} ${path}`,
  send: () => ({ method, path, ...(method === "GET" ? {} : { body: {} }) }),
  code: "method_not_allowed",
  names: [right],
});

testMistakes("a wrong method is refused with the right one", [
  wrongMethod("GET", "/api/v1/credits/grant", "POST"),
  wrongMethod("PUT", "/api/v1/credits/grant", "POST"),
  wrongMethod("POST", "/api/v1/credits", "GET"),
  wrongMethod("POST", "/api/v1/credits/history", "GET"),
  wrongMethod("DELETE", "/api/v1/credits", "GET"),
  wrongMethod("PATCH", "/api/v1/usage/events", "GET or POST"),
  wrongMethod("GET", "/api/v1/export-person", "POST"),
  wrongMethod("POST", "/api/v1/export-download", "GET"),
  wrongMethod("POST", "/api/v1/admin/apps/app_1/end-user-auth", "PUT"),
]);

it("a path like no other gets no suggestion, but a link to the reference", async () => {
  for (const path of [
    "/favicon.ico",
    "/wp-login.php",
    "/api",
    `/api/v1/${"credits".repeat(60)}`,
    `/${"/a".repeat(90)}`,
  ]) {
    const answer = await makeClient(new Clock())("GET", path);
    expectError(answer, "not_found");
    expect(answer.body.error.message).toBe("There is nothing at this path. All paths are described at /docs.");
    expect(answer.headers.get("link")).toBe('</docs>; rel="help"');
  }
});

it("/ redirects to the reference", async () => {
  const call = makeClient(new Clock());
  for (const method of ["GET", "HEAD"]) {
    const answer = await call(method, "/");
    expect([answer.status, answer.headers.get("location")]).toEqual([302, "/docs"]);
  }
  expectError(await call("POST", "/"), "method_not_allowed");
});

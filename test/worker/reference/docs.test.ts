import { expect, it } from "vitest";
import { type ErrorCode, errorMeaning, errorStatus } from "../../../src/errors.ts";
import { describedOperations as operations } from "../../../src/reference/api-document.ts";
import { Clock, makeClient } from "../../support/world.ts";

const read = (address = "/docs") => makeClient(new Clock())("GET", address);

it("the reference at /docs is a page of HTML that needs no key and loads only files of its own", async () => {
  const { status, headers, body } = await read();
  expect([status, headers.get("content-type")]).toEqual([200, "text/html; charset=utf-8"]);
  expect(body).toMatch(/^<!doctype html>/i);
  const loaded = [...body.matchAll(/(?:src|href)="([^"]+)"/g)].map((match) => match[1]);
  expect(loaded).toEqual(["/docs/docs.css", "/api/v1/openapi.json", "/docs/scalar.js", "/docs/docs.js"]);
  for (const path of loaded) expect((await read(path)).status, path).toBe(200);
});

it("the reference at /docs has a policy that runs no other script, sends nothing to other sites and lets no site frame it", async () => {
  for (const path of ["/docs", "/docs/docs.css", "/docs/docs.js", "/docs/scalar.js"]) {
    const policy = (await read(path)).headers.get("content-security-policy") ?? "";
    expect(policy).toContain("default-src 'none'; script-src 'self'; ");
    expect(policy).toContain("connect-src 'self'; ");
    expect(policy).toContain("frame-ancestors 'none'");
    expect(policy.split(";").find((part) => part.includes("script-src"))).not.toContain("unsafe");
  }
});

it("the reference at /docs answers 304 to a browser that has the file already", async () => {
  const { headers } = await read("/docs/docs.js");
  const etag = headers.get("etag") ?? "";
  expect(etag).not.toBe("");
  const again = await makeClient(new Clock())("GET", "/docs/docs.js", { headers: { "if-none-match": etag } });
  expect([again.status, again.headers.get("etag")]).toEqual([304, etag]);
});

it("the reference at /docs is not found at a path of no file", async () => {
  expect((await read("/docs/openapi.json")).body.error.code).toBe("not_found");
});

it("the reference at /docs has every error code with its status and meaning in the document's introduction", async () => {
  const { body } = await read("/api/v1/openapi.json");
  for (const [code, status] of Object.entries(errorStatus)) {
    expect(body.info.description).toContain(`\n| ${status} | \`${code}\` | ${errorMeaning[code as ErrorCode]} |`);
  }
});

it("/llms.txt is text with the request's origin, whose links work and whose calls exist", async () => {
  const { status, headers, body } = await read("https://purser.example/llms.txt");
  expect([status, headers.get("content-type")]).toEqual([200, "text/plain; charset=UTF-8"]);
  expect(body).toMatch(/^# Purser\n\n> /);
  expect(body).not.toContain("origin.invalid");
  for (const [, link = ""] of body.matchAll(/https:\/\/purser\.example(\/[^\s)"]*)/g)) {
    expect((await read(link)).status, link).toBe(200);
  }
  const described = new Set(operations.map(({ method, path }) => `${method.toUpperCase()} ${path}`));
  const named = [...body.matchAll(/`((?:GET|POST) \/api\/[^\s`?]*)/g)].map(([, call]) => call);
  expect(named.length).toBeGreaterThan(5);
  expect(named.filter((call) => !described.has(call))).toEqual([]);
});

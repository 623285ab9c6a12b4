import { describe, expect, it } from "vitest";
import { errorStatus } from "../../../src/errors.ts";
import { operations } from "../../../src/reference/api-document.ts";
import { Clock, makeClient } from "../../support/world.ts";

const read = (address = "/docs") => makeClient(new Clock())("GET", address);

async function readPage() {
  const { body, headers } = await read();
  const page: string = body;
  return { page, policy: headers.get("content-security-policy") ?? "" };
}

describe("the reference at /docs", () => {
  it("is a page of HTML that needs no key", async () => {
    const { status, headers, body } = await read();
    expect(status).toBe(200);
    expect(headers.get("content-type")).toMatch(/^text\/html/);
    expect(body).toMatch(/^<!DOCTYPE html>/i);
  });

  it("describes every operation of openapi.json, with an example request, and every error code", async () => {
    const { page } = await readPage();
    for (const { id, method, summary } of operations) {
      const section = page.split(`<section class="operation" id="${id}"`)[1]?.split("</section>")[0] ?? "";
      expect(section, id).toContain(summary.replaceAll("'", "&#39;"));
      expect(section, id).toContain(`>${method.toUpperCase()}<`);
      expect(section, id).toMatch(/<code>curl /);
    }
    for (const code of Object.keys(errorStatus)) expect(page).toContain(`<code>${code}</code>`);
  });

  it("uses the request's origin in examples, escaped for any host name", async () => {
    const { page } = await readPage();
    expect(page).toContain("<code>http://localhost</code>");
    expect(page).toContain("curl &quot;http://localhost/health&quot;");
    const { body } = await read("https://a&b'$&.example/docs");
    expect(body).toContain("<code>https://a&#38;b&#39;$&#38;.example</code>");
    expect(body).not.toContain("origin.invalid");
  });

  it("links only to ids that exist once in the page", async () => {
    const { page } = await readPage();
    const ids = new Set([...page.matchAll(/ id="([^"]+)"/g)].map((match) => match[1]));
    const targets = [...page.matchAll(/href="#([^"]+)"/g)].map((match) => match[1]);
    expect(targets.length).toBeGreaterThan(operations.length);
    expect(targets.filter((target) => !ids.has(target))).toEqual([]);
    expect([...page.matchAll(/ id="([^"]+)"/g)]).toHaveLength(ids.size);
  });

  it("loads no other file and runs no script", async () => {
    const { page, policy } = await readPage();
    expect(page).not.toMatch(/<(script|link|img|iframe|object|embed|form)\b/i);
    expect(page).not.toMatch(/\s(on\w+|style|src|srcset)=/i);
    expect(page).not.toMatch(/@import|url\(/);
    const hrefs = [...page.matchAll(/href="([^"#][^"]*)"/g)].map((match) => match[1]);
    expect(new Set(hrefs)).toEqual(new Set(["/api/v1/openapi.json"]));
    expect(policy).toMatch(/^default-src 'none'; style-src 'sha256-[A-Za-z0-9+/]{43}='; /);
    expect(policy).not.toContain("unsafe");
  });

  it("allows its one style sheet by the hash of its contents", async () => {
    const { page, policy } = await readPage();
    const style = page.split("<style>")[1]?.split("</style>")[0] ?? "";
    const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(style));
    expect(policy).toContain(`'sha256-${btoa(String.fromCharCode(...new Uint8Array(digest)))}'`);
  });
});

describe("/llms.txt", () => {
  it("is text with the request's origin, whose links work and whose calls exist", async () => {
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
});

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { runInNewContext } from "node:vm";
import { transform } from "esbuild";
import { describe, expect, it } from "vitest";
import { Purser } from "../../clients/typescript/src/index.ts";

const root = join(import.meta.dirname, "../..");

interface Parameter {
  readonly $ref?: string;
  readonly name: string;
  readonly in: string;
}
interface Described {
  readonly operationId: string;
  readonly parameters?: readonly Parameter[];
  readonly requestBody?: { readonly content: Readonly<Record<string, { readonly example: unknown }>> };
  readonly responses: Readonly<Record<string, { readonly content?: Readonly<Record<string, { example: unknown }>> }>>;
}
type Paths = Readonly<Record<string, Readonly<Record<string, Described>>>>;

/** Of every run of the tests, by `npm run reference`. */
const { paths }: { paths: Paths } = JSON.parse(readFileSync(join(root, ".purser/reference/openapi.json"), "utf8"));
const operations = Object.entries(paths).flatMap(([path, item]) =>
  Object.entries(item).map(([method, operation]) => ({ path, method: method.toUpperCase(), ...operation })),
);

interface Sent {
  readonly url: string;
  readonly method: string | undefined;
  readonly body: unknown;
}

/** A client of which every call is answered this, and what it sent. */
function recordingClient(answer: unknown) {
  const sent: Sent[] = [];
  const purser = new Purser({
    url: "https://purser.example",
    key: "sk_live_x",
    fetch: async (url, { method, body }) => {
      sent.push({ url, method, body: typeof body === "string" ? JSON.parse(body) : null });
      return Response.json(answer);
    },
  });
  // Called by the names that openapi.json has, which its type does not know.
  return { sent, purser: purser as unknown as Record<string, (input: unknown) => Promise<unknown>> };
}

describe("every operation of openapi.json", () => {
  it("is named once", () => {
    const names = operations.map(({ operationId }) => operationId);
    expect(names.length).toBeGreaterThan(60);
    expect(new Set(names).size).toBe(names.length);
  });

  it.each(operations.map((operation) => [operation.operationId, operation] as const))(
    "%s is a method of the client, which sends its path, query and body, and answers its answer",
    async (name, { path, method, parameters = [], requestBody, responses }) => {
      const answer = responses[200]?.content?.["application/json"]?.example ?? {};
      const { purser, sent } = recordingClient(answer);
      const named = (place: string) => parameters.filter((one) => one.$ref === undefined && one.in === place);
      const sampleOf = ({ name: field }: Parameter) => `a ${field}/?`;
      const given = [...named("path"), ...named("query")].map((one) => [one.name, sampleOf(one)] as const);
      const body =
        requestBody?.content["application/json"]?.example ?? (method === "GET" || method === "DELETE" ? null : {});
      const input = Array.isArray(body) ? body : { ...Object.fromEntries(given), ...(body as object | null) };
      expect(await purser[name]?.(input)).toEqual(answer);

      const pathOf = named("path").reduce(
        (text, one) => text.replace(`{${one.name}}`, encodeURIComponent(sampleOf(one))),
        path,
      );
      const [{ url: sentUrl, ...request } = { url: "" }] = sent;
      const { pathname, searchParams } = new URL(sentUrl);
      expect({ pathname, ...request }).toMatchObject({ pathname: pathOf, method, body });
      expect([...searchParams]).toEqual(named("query").map((one) => [one.name, sampleOf(one)]));
    },
  );
});

describe("the client", () => {
  it("says at once that its url or its key is missing, as it does not when a call got no answer", () => {
    // As `process.env` gives them.
    const missing = undefined as unknown as string;
    for (const url of [missing, "", "purser.example"]) {
      expect(() => new Purser({ url, key: "sk_live_x" })).toThrow("needs a url");
    }
    for (const key of [missing, ""]) {
      expect(() => new Purser({ url: "https://purser.example", key })).toThrow("needs a key");
    }
  });
});

describe("the built client", () => {
  it("needs no global that Node 20, Deno, Bun, Workers and browsers do not all have", async () => {
    const bundle = readFileSync(join(root, "clients/typescript/dist/index.js"), "utf8");
    const { code } = await transform(bundle, { format: "iife", globalName: "client" });
    // Of WinterTC's Minimum Common Web API, whose names all of them have.
    const { fetch: _fetch, ...common } = {
      AbortController,
      AbortSignal,
      Headers,
      TextDecoder,
      TextEncoder,
      URLSearchParams,
      atob,
      clearInterval,
      clearTimeout,
      crypto,
      fetch,
      setInterval,
      setTimeout,
    };
    const asked: string[] = [];
    const answers: Readonly<Record<string, object>> = {
      "/api/v1/usage/reservations": { reservationId: "res_1", holds: [] },
      "/api/v1/credits/history": { entries: [1, 2], nextCursor: null },
    };
    const sandbox = {
      ...common,
      fetch: async (url: string) => {
        const { pathname } = new URL(url);
        asked.push(pathname);
        // The first of all answers is lost.
        if (asked.length === 1) throw new TypeError("fetch failed");
        if (pathname.endsWith("/release")) return Response.json({ error: { code: "not_found" } }, { status: 404 });
        return Response.json(answers[pathname] ?? {});
      },
    };
    const story = `${code}
      (async () => {
        const purser = new client.Purser({ url: "https://purser.example", key: "sk_live_x" });
        const usage = { userId: "u", event: "chat", quantities: { tokens: 1 } };
        const { result } = await purser.usage.hold(usage, ({ used }) => { used({ tokens: 1 }); return "done"; });
        const failed = await purser.usage.hold(usage, () => { throw new RangeError("broken"); }).catch(({ name }) => name);
        const entries = [];
        for await (const entry of purser.listLedgerEntries({ userId: "u" })) entries.push(entry);
        const headers = { "webhook-id": "m", "webhook-timestamp": String(Math.floor(Date.now() / 1000)), "webhook-signature": "v1,AAAA" };
        const forged = await client.verifyWebhook(headers, "{}", "whsec_c2VjcmV0").catch(({ name }) => name);
        return JSON.stringify({ result, failed, entries, forged });
      })()`;
    expect(JSON.parse(await runInNewContext(story, sandbox))).toEqual({
      result: "done",
      failed: "RangeError",
      entries: [1, 2],
      forged: "WebhookVerificationError",
    });
    const hold = "/api/v1/usage/reservations";
    expect(asked).toEqual([
      hold,
      hold,
      `${hold}/res_1/commit`,
      hold,
      `${hold}/res_1/release`,
      "/api/v1/credits/history",
    ]);
  });
});

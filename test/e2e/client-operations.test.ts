import { readFileSync } from "node:fs";
import { join } from "node:path";
import { runInNewContext } from "node:vm";
import { transform } from "esbuild";
import { expect, it } from "vitest";
import { PurserAdmin } from "../../clients/typescript/src/admin.ts";
import { Purser, PurserError } from "../../clients/typescript/src/index.ts";
import { PurserIntake } from "../../clients/typescript/src/intake.ts";

const root = join(import.meta.dirname, "../..");

interface Parameter {
  readonly $ref?: string;
  readonly name: string;
  readonly in: string;
}
interface Described {
  readonly operationId: string;
  readonly tags: readonly string[];
  readonly parameters?: readonly Parameter[];
  readonly requestBody?: { readonly content: Readonly<Record<string, { readonly example: unknown }>> };
  readonly responses: Readonly<Record<string, { readonly content?: Readonly<Record<string, { example: unknown }>> }>>;
}
type Paths = Readonly<Record<string, Readonly<Record<string, Described>>>>;

/** `npm run reference` writes it before each run of the tests. */
const { paths }: { paths: Paths } = JSON.parse(readFileSync(join(root, ".purser/reference/openapi.json"), "utf8"));
const operations = Object.entries(paths).flatMap(([path, item]) =>
  Object.entries(item).map(([method, operation]) => ({ path, method: method.toUpperCase(), ...operation })),
);

interface Sent {
  readonly url: string;
  readonly method: string | undefined;
  readonly body: unknown;
}

/** The client that has the operation. */
const clientOf = (path: string, tag: string | undefined) => {
  if (path.startsWith("/api/v1/admin/")) return PurserAdmin;
  return tag === "Analytics" || path.startsWith("/api/v1/stripe/") ? PurserIntake : Purser;
};

/** Returns a client whose calls all get `answer`, and the requests that it sent. */
function recordingClient(Client: ReturnType<typeof clientOf>, answer: unknown) {
  const sent: Sent[] = [];
  const purser = new Client({
    url: "https://purser.example",
    key: Client === PurserAdmin ? "administrator" : "sk_live_x",
    fetch: async (url, { method, body }) => {
      sent.push({ url, method, body: typeof body === "string" ? JSON.parse(body) : null });
      return Response.json(answer);
    },
  });
  // The tests call methods by their names in openapi.json, which the type does not have.
  return { sent, purser: purser as unknown as Record<string, (input: unknown) => Promise<unknown>> };
}

it("every operation of openapi.json has a unique name", () => {
  const names = operations.map(({ operationId }) => operationId);
  expect(names.length).toBeGreaterThan(60);
  expect(new Set(names).size).toBe(names.length);
});

it.each(operations.map((operation) => [operation.operationId, operation] as const))(
  "every operation of openapi.json %s is a method of the client that sends its path, query and body, and returns its response",
  async (name, { path, method, tags, parameters = [], requestBody, responses }) => {
    const answer = responses[200]?.content?.["application/json"]?.example ?? {};
    const { purser, sent } = recordingClient(clientOf(path, tags[0]), answer);
    const named = (place: string) => parameters.filter((one) => one.$ref === undefined && one.in === place);
    const sampleOf = ({ name: field }: Parameter) => `a ${field}/?`;
    const given = [...named("path"), ...named("query")].map((one) => [one.name, sampleOf(one)] as const);
    const body =
      requestBody?.content["application/json"]?.example ?? (method === "GET" || method === "DELETE" ? null : {});
    const input = Array.isArray(body) ? body : { ...Object.fromEntries(given), ...(body as object | null) };
    const isJson = responses[200]?.content?.["application/json"] !== undefined;
    expect(await purser[name]?.(input)).toEqual(isJson ? answer : JSON.stringify(answer));

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

it("the client throws immediately if the url or the key is missing", () => {
  // `process.env` returns these values for missing variables.
  const missing = undefined as unknown as string;
  for (const url of [missing, "", "purser.example"]) {
    expect(() => new Purser({ url, key: "sk_live_x" })).toThrow("needs a url");
  }
  for (const key of [missing, ""]) {
    expect(() => new Purser({ url: "https://purser.example", key })).toThrow("needs a key");
  }
});

const unreached = { url: "https://purser.example", fetch: () => expect.unreachable("Nothing is sent.") };

it("the client rejects a key of the wrong kind before it sends anything", async () => {
  const page = new Purser({ ...unreached, key: "pk_live_x" });
  await expect(page.grantCredits({ userId: "u", packId: "p" })).rejects.toThrow(
    "grantCredits needs a secret key, sk_…. This client has a publishable key, pk_….",
  );
  await expect(page.listBalances({ userId: "u" })).rejects.toThrow(
    "listBalances with a publishable key needs userToken",
  );
  const backend = new PurserAdmin({ ...unreached, key: "sk_live_x" });
  await expect(backend.listApps()).rejects.toThrow("listApps needs the administrator's token");
  const admin = new Purser({ ...unreached, key: "administrator" });
  await expect(admin.listCreditUsers()).rejects.toThrow("listCreditUsers needs a secret key");
});

it("the client accepts dates for times, in bodies and in queries", async () => {
  const { purser, sent } = recordingClient(Purser, { credits: [] });
  const at = new Date(Date.UTC(2026, 0, 31, 12));
  await purser.listBalances?.({ userId: "u", asOf: at });
  await purser.grantCredits?.({ userId: "u", packId: "p", externalRef: "o", expiresAt: at });
  expect(new URL(sent[0]?.url ?? "").searchParams.get("asOf")).toBe("2026-01-31T12:00:00.000Z");
  expect(sent[1]?.body).toMatchObject({ expiresAt: "2026-01-31T12:00:00.000Z" });
});

it("the client adds to each result its request id, whether it was replayed, and the response, which copies and output leave out", async () => {
  const headers = { "x-request-id": "req_1", "idempotent-replayed": "true" };
  const fetch = async () => Response.json({ balances: [] }, { headers });
  const answer = await new Purser({ ...unreached, key: "sk_live_x", fetch }).grantCredits({
    userId: "u",
    packId: "p",
  });
  expect([answer.requestId, answer.isReplayed, answer.response.status]).toEqual(["req_1", true, 200]);
  expect([JSON.stringify(answer), Object.keys({ ...answer })]).toEqual(['{"balances":[]}', ["balances"]]);
});

it.each([
  ["a page of a proxy", () => new Response("<html>", { headers: { "content-type": "text/html" } })],
  ["a text", () => Response.json("fine")],
  ["JSON that does not parse", () => new Response("{", { headers: { "content-type": "application/json" } })],
  ["nothing", () => new Response(null)],
])("the client throws unknown_answer when Purser did not write the body of a 200: %s", async (_name, answer) => {
  const purser = new Purser({ ...unreached, key: "sk_live_x", retries: 0, fetch: async () => answer() });
  await expect(purser.listBalances({ userId: "u" })).rejects.toMatchObject({ code: "unknown_answer", status: 200 });
});

it("the client reports which host did not respond, and why", async () => {
  const fetch = async () => {
    throw new TypeError("fetch failed", { cause: Object.assign(new Error("connect"), { code: "ECONNREFUSED" }) });
  };
  const purser = new Purser({ ...unreached, key: "sk_live_x", retries: 0, fetch });
  await expect(purser.listBalances({ userId: "u" })).rejects.toMatchObject({
    code: "no_answer",
    message: "GET /api/v1/credits got no answer from purser.example: ECONNREFUSED.",
  });
});

it("the client infers the type of an error's details from its code", async () => {
  const body = {
    error: { code: "idempotency_conflict", message: "m", requestId: "r", details: { differs: ["quantity"] } },
  };
  const fetch = async () => Response.json(body, { status: 409 });
  const error = await new Purser({ ...unreached, key: "sk_live_x", fetch })
    .grantCredits({ userId: "u", packId: "p" })
    .catch((thrown: unknown) => thrown);
  if (!(error instanceof PurserError && error.is("idempotency_conflict"))) throw error;
  expect(error.details?.differs).toEqual(["quantity"]);
});

it("the client throws the error of the work, even when the commit of its usage fails for good", async () => {
  const sent: unknown[] = [];
  const fetch = async (url: string, { body }: RequestInit) => {
    const call = new URL(url).pathname.split("/").at(-1);
    sent.push([call, JSON.parse(String(body)).quantities]);
    if (call === "commit") return Response.json({ error: { code: "not_found", message: "Gone." } }, { status: 404 });
    return Response.json({ reservationId: "res_1", holds: [] });
  };
  const purser = new Purser({ ...unreached, key: "sk_live_x", fetch });
  const work = purser.usage.hold({ userId: "u", event: "chat", quantities: { tokens: 9 } }, ({ used }) => {
    used({ tokens: 4 });
    throw new RangeError("the model failed");
  });
  await expect(work).rejects.toThrow("the model failed");
  expect(sent).toEqual([
    ["reservations", { tokens: 9 }],
    ["commit", { tokens: 4 }],
  ]);
});

it("the built client needs only globals that Node 20, Deno, Bun, Workers and browsers all have", async () => {
  const bundle = readFileSync(join(root, "clients/typescript/dist/index.js"), "utf8");
  const { code } = await transform(bundle, { format: "iife", globalName: "client" });
  // These are in WinterTC's Minimum Common Web API, so all runtimes have them.
  const { fetch: _fetch, ...common } = {
    AbortController,
    AbortSignal,
    Headers,
    TextDecoder,
    TextEncoder,
    URL,
    URLSearchParams,
    atob,
    clearInterval,
    clearTimeout,
    crypto,
    fetch,
    setInterval,
    setTimeout,
  };
  const paths: string[] = [];
  const answers: Readonly<Record<string, object>> = {
    "/api/v1/usage/reservations": { reservationId: "res_1", holds: [] },
    "/api/v1/credits/history": { entries: [1, 2], nextCursor: null },
  };
  const sandbox = {
    ...common,
    fetch: async (url: string) => {
      const { pathname } = new URL(url);
      paths.push(pathname);
      // The first response is lost.
      if (paths.length === 1) throw new TypeError("fetch failed");
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
  expect(paths).toEqual([hold, hold, `${hold}/res_1/commit`, hold, `${hold}/res_1/release`, "/api/v1/credits/history"]);
});

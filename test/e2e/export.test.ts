import { beforeAll, expect, it } from "vitest";
import { type ServedApp, type Server, sharedServer } from "./support/server.ts";

let server: Server;
let app: ServedApp;

beforeAll(async () => {
  server = await sharedServer();
  app = await server.makeApp();
});

async function makePerson(distinctId: string, events: number): Promise<void> {
  const environmentId = app.environmentIds.live;
  const statements = [
    `INSERT INTO distinct_ids (environment_id, distinct_id, is_device_form, is_sender, is_identified, first_seen_at_ms,
       last_seen_at_ms, event_count, event_bytes)
     VALUES (${environmentId}, '${distinctId}', 0, 1, 1, 1, 1, ${events}, ${events * 14})`,
    `INSERT INTO analytics_events (environment_id, distinct_id, seq, uuid, event, timestamp_ms, received_at_ms, properties)
     WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ${events})
     SELECT ${environmentId}, '${distinctId}', i, '${distinctId}-' || i, 'seen', i, i, '{"text":"Zoë"}' FROM n`,
  ];
  await server.db.batch(statements.map((statement) => server.db.prepare(statement)));
}

const post = (path: string, body: object): Promise<Response> =>
  fetch(`${server.url}/api/v1/${path}`, {
    method: "POST",
    headers: { authorization: `Bearer ${app.keys.sk_live}`, "content-type": "application/json" },
    body: JSON.stringify(body),
  });

async function mint(distinctId: string): Promise<string> {
  const response = await post("export-person", { distinctId });
  expect(response.status).toBe(200);
  const { downloadUrl } = (await response.json()) as { downloadUrl: string };
  expect(new URL(downloadUrl).origin).toBe(server.url);
  return downloadUrl;
}

it("an export sends a small document with its length, and answers HEAD without a body", async () => {
  await makePerson("small", 3);
  const link = await mint("small");
  const head = await fetch(link, { method: "HEAD" });
  expect([head.status, await head.text()]).toEqual([200, ""]);
  const response = await fetch(link);
  const bytes = await response.arrayBuffer();
  expect(response.headers.get("content-length")).toBe(`${bytes.byteLength}`);
  expect(response.headers.get("content-encoding")).toBe("identity");
});

it("an export streams a large document completely, and is recorded in the audit", async () => {
  await makePerson("large", 30_000);
  const response = await fetch(await mint("large"));
  expect(response.headers.get("content-length")).toBeNull();
  const document = (await response.json()) as { events: { analytics: { uuid: string }[] } };
  expect(document.events.analytics.map(({ uuid }) => uuid)).toEqual(
    Array.from({ length: 30_000 }, (_, index) => `large-${index + 1}`),
  );
  const { results } = await server.db
    .prepare("SELECT action FROM export_audit WHERE distinct_id = 'large' ORDER BY seq")
    .all<{ action: string }>();
  expect(results.map(({ action }) => action)).toEqual(["minted", "opened", "completed"]);
});

it("an export cannot be parsed if its person is erased during a slow download", async () => {
  await makePerson("erased", 60_000);
  const response = await fetch(await mint("erased"));
  const reader = response.body?.getReader();
  await reader?.read();
  const erased = await post("erase-person", { distinctId: "erased" });
  expect(erased.status).toBe(200);
  let text = "";
  const decoder = new TextDecoder();
  try {
    for (;;) {
      const chunk = await reader?.read();
      if (chunk === undefined || chunk.done) break;
      text = (text + decoder.decode(chunk.value, { stream: true })).slice(-200);
    }
  } catch {}
  expect(text.endsWith("]}")).toBe(false);
});

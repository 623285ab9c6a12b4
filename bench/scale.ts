/**
 * What one database holds and does: bytes that each kind of write adds to it, and how many of each it takes in a second.
 * `npm run bench:scale` prints the table that docs/scale.md quotes.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { bundle } from "./bundle.ts";
import { ADMIN_TOKEN, migrate, serve } from "./serve.ts";
import { table } from "./table.ts";

const USERS = 500;
const CONNECTIONS = 20;

type Post = (path: string, body: object, key: string) => Promise<Record<string, unknown>>;

interface Scene {
  readonly post: Post;
  readonly secretKey: string;
  readonly publishableKey: string;
}

interface Kind {
  readonly name: string;
  readonly writes: number;
  /** How many writes one call makes. */
  readonly ofCall: number;
  readonly call: (scene: Scene, index: number) => Promise<unknown>;
}

const userOf = (index: number): string => `user_${String(index % USERS).padStart(6, "0")}`;
const usage = { event: "chat.completed", model: "small-2", quantities: { tokens: 120, cents: 0.036 } };
const uuid = (index: number): string => `00000000-0000-4000-8000-${String(index).padStart(12, "0")}`;

const kinds: readonly Kind[] = [
  {
    name: "grant of one item",
    writes: 1_000,
    ofCall: 1,
    call: ({ post, secretKey }, index) =>
      post(
        "/api/v1/credits/grant",
        { userId: userOf(index), packId: "Wallet", externalRef: `order_${index}` },
        secretKey,
      ),
  },
  {
    name: "usage event",
    writes: 5_000,
    ofCall: 1,
    call: ({ post, secretKey }, index) =>
      post("/api/v1/usage/events", { ...usage, userId: userOf(index), eventId: `event_${uuid(index)}` }, secretKey),
  },
  {
    name: "hold and commit",
    writes: 1_500,
    ofCall: 1,
    call: async ({ post, secretKey }, index) => {
      const reservationId = `res_${uuid(index)}`;
      await post("/api/v1/usage/reservations", { ...usage, userId: userOf(index), reservationId }, secretKey);
      const { quantities } = usage;
      const path = `/api/v1/usage/reservations/${reservationId}/commit`;
      await post(path, { eventId: `commit_${uuid(index)}`, quantities }, secretKey);
    },
  },
  {
    name: "analytics event, 20 a request",
    writes: 10_000,
    ofCall: 20,
    call: ({ post, publishableKey }, call) => {
      const batch = Array.from({ length: 20 }, (_, at) => ({
        uuid: uuid(call * 20 + at),
        event: "page viewed",
        distinct_id: userOf(call),
        properties: { $current_url: "https://example.com/pricing", $browser: "Firefox", $lib: "web", plan: "team" },
      }));
      return post("/batch/", { api_key: publishableKey, batch }, publishableKey);
    },
  },
];

async function prepareScene(post: Post): Promise<Scene> {
  const admin = (path: string, body: object) => post(`/api/v1/admin${path}`, body, ADMIN_TOKEN);
  const { appId } = await admin("/apps", { name: "Scale" });
  const keyOf = async (kind: string) => String((await admin(`/apps/${appId}/keys`, { kind, mode: "live" })).key);
  await admin(`/apps/${appId}/packs`, { packName: "Wallet", items: [{ amount: 1_000_000, unit: "cents" }] });
  return { post, secretKey: await keyOf("secret"), publishableKey: await keyOf("publishable") };
}

/** Makes `calls` calls, so many at once, and answers the seconds that they took. */
async function run(calls: number, call: (index: number) => Promise<unknown>): Promise<number> {
  let next = 0;
  const startMs = performance.now();
  const work = async () => {
    while (next < calls) await call(next++);
  };
  await Promise.all(Array.from({ length: CONNECTIONS }, work));
  return (performance.now() - startMs) / 1_000;
}

const directory = mkdtempSync(join(tmpdir(), "purser-scale-"));
const served = await serve(await bundle("src/index.ts"), directory);
try {
  await migrate(served.db);
  const bytes = async () => (await served.db.prepare("SELECT count(*) FROM apps").run()).meta.size_after;
  const post: Post = async (path, body, key) => {
    const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
    const answer = await fetch(served.url + path, { method: "POST", headers, body: JSON.stringify(body) });
    if (!answer.ok) throw new Error(`${path} answered ${answer.status}: ${await answer.text()}`);
    return (await answer.json()) as Record<string, unknown>;
  };
  const scene = await prepareScene(post);
  // Every user has an account and a balance before anything is measured.
  await run(USERS, (index) =>
    post("/api/v1/credits/grant", { userId: userOf(index), packId: "Wallet" }, scene.secretKey),
  );
  const rows: string[][] = [];
  for (const { name, writes, ofCall, call } of kinds) {
    const before = await bytes();
    const seconds = await run(writes / ofCall, (index) => call(scene, index));
    rows.push([name, `${Math.round(((await bytes()) - before) / writes)}`, `${Math.round(writes / seconds)}`]);
  }
  console.log(table(["Write", "Bytes", "A second"], rows));
} finally {
  await served.close();
  rmSync(directory, { recursive: true, force: true });
}

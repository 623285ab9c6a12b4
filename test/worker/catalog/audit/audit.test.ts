import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, it, vi } from "vitest";
import { END_USER_SECRET } from "../../../support/end-user-setting.ts";
import { FAULTS, type FaultPlan, faultyD1 } from "../../../support/faulty-d1.ts";
import { APPS } from "../../../support/paths.ts";
import { expectError } from "../../../support/rejections.ts";
import { type Answer, Clock, makeClient } from "../../../support/world.ts";

const key = env.ADMIN_TOKEN;
const secret = END_USER_SECRET;
const low = { mode: "live", name: "Low", unit: "tokens", below: { percent: 20 } };
const items = [{ amount: 400, unit: "tokens" }];

type Send = (method: string, path: string, body?: object) => Promise<Answer>;

interface AuditWorld {
  readonly appId: string;
  readonly clock: Clock;
  /** Sends a request of the administrator, with a path below the application's. */
  readonly send: Send;
  /** Reads the audit, oldest entry first. */
  readonly entries: () => Promise<{ at: string; by: string; action: string; target: string; details: object }[]>;
}

async function makeAuditWorld(bindings: Partial<Env> = {}): Promise<AuditWorld> {
  const clock = new Clock();
  const faultless = makeClient(clock);
  const call = makeClient(clock, bindings);
  const { appId } = (await faultless("POST", APPS, { key, body: { name: "Desk" } })).body;
  return {
    appId,
    clock,
    send: (method, path, body) =>
      call(method, `${APPS}/${appId}${path}`, { key, ...(body === undefined ? {} : { body }) }),
    entries: async () =>
      (await faultless("GET", `${APPS}/${appId}/audit?limit=500`, { key })).body.entries.toReversed(),
  };
}

/** The path of the object that an act needs, and its id. */
interface AuditedObject {
  readonly path: string;
  readonly id: string;
}

async function createKey(send: Send): Promise<AuditedObject> {
  const { keyId } = (await send("POST", "/keys", { kind: "secret", mode: "live" })).body;
  return { id: keyId, path: `/keys/${keyId}` };
}

async function createPack(send: Send, packName = "Starter"): Promise<AuditedObject> {
  const { packId } = (await send("POST", "/packs", { packName, items })).body;
  return { id: packId, path: `/packs/${packId}` };
}

async function createArchivedPack(send: Send): Promise<AuditedObject> {
  const pack = await createPack(send, "Old");
  await send("POST", `${pack.path}/archive`);
  return pack;
}

async function createAlert(send: Send): Promise<AuditedObject> {
  const { alertId } = (await send("POST", "/alerts", low)).body;
  return { id: alertId, path: `/alerts/${alertId}` };
}

interface AuditedAct {
  readonly action: string;
  /** Creates the object of the act, if it needs one. Default: the application. */
  readonly create?: (send: Send) => Promise<AuditedObject>;
  readonly act: (send: Send, path: string) => Promise<Answer>;
  /** The new object's id, if the act creates one. */
  readonly created?: (body: Answer["body"]) => string;
  readonly details: object;
  /** Whether a repeat has no effect. */
  readonly isIdempotent: boolean;
}

const hs256 = { mode: "live", setting: { type: "hs256", secret } };
const acts: readonly AuditedAct[] = [
  {
    action: "key.created",
    act: (send) => send("POST", "/keys", { kind: "publishable", mode: "test", name: "Page" }),
    created: ({ keyId }) => keyId,
    details: { kind: "publishable", mode: "test" },
    isIdempotent: false,
  },
  {
    action: "key.revoked",
    create: createKey,
    act: (send, path) => send("DELETE", path),
    details: {},
    isIdempotent: true,
  },
  {
    action: "end_user_auth.set",
    act: (send) => send("PUT", "/end-user-auth", hs256),
    details: { mode: "live", type: "hs256" },
    isIdempotent: true,
  },
  {
    action: "limits.set",
    act: (send) => send("PUT", "/limits", { mode: "live", analytics: { eventsADay: 5 } }),
    details: { mode: "live", eventsADay: 5 },
    isIdempotent: true,
  },
  {
    action: "alert.created",
    act: (send) => send("POST", "/alerts", low),
    created: ({ alertId }) => alertId,
    details: { mode: "live" },
    isIdempotent: false,
  },
  {
    action: "alert.deleted",
    create: createAlert,
    act: (send, path) => send("DELETE", path),
    details: { mode: "live" },
    isIdempotent: true,
  },
  {
    action: "expiry_notices.set",
    act: (send) => send("PUT", "/expiry-notices", { mode: "live", days: [30, 7] }),
    details: { mode: "live", days: ["30", "7"] },
    isIdempotent: true,
  },
  {
    action: "pack.created",
    act: (send) => send("POST", "/packs", { packName: "New", items }),
    created: ({ packId }) => packId,
    details: { version: 1 },
    isIdempotent: false,
  },
  {
    action: "pack.changed",
    create: (send) => createPack(send),
    act: (send, path) => send("PATCH", path, { packName: "Begin", defaultExpiryDays: 3 }),
    details: { version: 2, fields: ["packName", "defaultExpiryDays"], before: { defaultExpiryDays: null } },
    isIdempotent: true,
  },
  {
    action: "pack.archived",
    create: (send) => createPack(send),
    act: (send, path) => send("POST", `${path}/archive`),
    details: { version: 2 },
    isIdempotent: true,
  },
  {
    action: "pack.restored",
    create: createArchivedPack,
    act: (send, path) => send("POST", `${path}/restore`),
    details: { version: 3 },
    isIdempotent: true,
  },
];

// Retries do not wait.
beforeEach(() => {
  const waits = vi.spyOn(scheduler, "wait").mockResolvedValue();
  return () => waits.mockRestore();
});

it("the audit begins with the application's creation", async () => {
  const { appId, entries } = await makeAuditWorld();
  const at = "2026-01-15T12:00:00.000Z";
  expect(await entries()).toEqual([{ at, by: "api", action: "app.created", target: appId, userId: null, details: {} }]);
});

it("the audit has one entry for an application even if a trip of its creation failed", async () => {
  const faulty = faultyD1(env.DB);
  const clock = new Clock();
  for (const fault of ["before", "amid", "after"] as const) {
    faulty.plan({ fault, at: 1 });
    const answer = await makeClient(clock, { DB: faulty.d1 })("POST", APPS, { key, body: { name: "Desk" } });
    const { body } = await makeClient(clock)("GET", `${APPS}/${answer.body.appId}/audit`, { key });
    expect(body.entries).toHaveLength(1);
  }
});

describe.each(acts)("$action", ({ action, create, act, created, details, isIdempotent }) => {
  /** An application with the object of the act. */
  async function makeActWorld(bindings: Partial<Env> = {}) {
    const world = await makeAuditWorld(bindings);
    const object = (await create?.(world.send)) ?? { path: "", id: world.appId };
    const countEntries = () =>
      env.DB.prepare("SELECT count(*) AS count FROM admin_audit WHERE app_id = ? AND action = ?")
        .bind(world.appId, action)
        .first<number>("count");
    return { ...world, object, act: () => act(world.send, object.path), countEntries };
  }

  it("is one entry with time, author and object, and without secrets and names", async () => {
    const world = await makeActWorld();
    const before = await world.entries();
    world.clock.advance(1_000);
    const answer = await world.act();
    expect(answer.status).toBe(200);
    const about = { action, target: created?.(answer.body) ?? world.object.id, userId: null, details };
    const entry = { at: "2026-01-15T12:00:01.000Z", by: "api", ...about };
    expect(await world.entries()).toEqual([...before, entry]);
    for (const word of [secret, "Starter", "Begin", "Page"]) expect(JSON.stringify(entry)).not.toContain(word);
  });

  it("is one entry if it happened, and none if it did not, whichever trip fails", async () => {
    /** Acts while trips fail as planned. Returns the status, the number of trips and the number of new entries. */
    const underFault = async (plan: FaultPlan | null) => {
      const faulty = faultyD1(env.DB);
      const world = await makeActWorld({ DB: faulty.d1 });
      faulty.plan(plan);
      const { status } = await world.act();
      return { status, trips: faulty.trips(), rows: await world.countEntries() };
    };
    const { trips } = await underFault(null);
    for (const fault of FAULTS) {
      for (let at = 1; at <= trips; at++) {
        const { status, rows } = await underFault({ fault, at });
        expect([status, rows], `${fault} at ${at}`).toEqual(fault === "overloaded" ? [503, 0] : [200, 1]);
        // Nothing is sent after the first "overloaded".
        if (fault === "overloaded") continue;
        const lost = await underFault({ fault, at, persists: true });
        // If only the answer of the last trip is lost, the act has happened.
        expect([lost.status, lost.rows], `${fault} from ${at} on`).toEqual([
          503,
          fault === "after" && at === trips ? 1 : 0,
        ]);
      }
    }
  });

  if (!isIdempotent) return;
  it("is not recorded again if it is repeated, even by five requests at once", async () => {
    const world = await makeActWorld();
    await Promise.all(Array.from({ length: 5 }, world.act));
    await world.act();
    expect(await world.countEntries()).toBe(1);
  });
});

it("the audit has no entry for a rejected act", async () => {
  const world = await makeAuditWorld();
  const { path } = await createPack(world.send);
  const archived = await createArchivedPack(world.send);
  await world.send("PATCH", path, { packName: "Taken" });
  await world.send("POST", "/packs", { packName: "Old", items });
  const before = await world.entries();
  const rejections: readonly (readonly [Promise<Answer>, Parameters<typeof expectError>[1]])[] = [
    [world.send("POST", "/keys", { kind: "secret" }), "invalid_request"],
    [world.send("DELETE", "/keys/key_none"), "not_found"],
    [world.send("POST", "/packs", { packName: "taken", items }), "pack_name_taken"],
    [world.send("PATCH", path, { packName: "old" }), "pack_name_taken"],
    [world.send("PATCH", path, { unit: "count" }), "invalid_request"],
    [world.send("PATCH", path, { version: 1, defaultExpiryDays: 9 }), "changed_meanwhile"],
    [world.send("POST", `${archived.path}/restore`), "pack_name_taken"],
    [world.send("POST", "/packs/cpk_none/archive"), "not_found"],
  ];
  for (const [answer, code] of rejections) expectError(await answer, code);
  expect(await world.entries()).toEqual(before);
});

it("the audit has an entry for each of twenty racing acts, numbered without gaps", async () => {
  const world = await makeAuditWorld();
  await Promise.all(
    Array.from({ length: 20 }, (_, i) => world.send("POST", "/packs", { packName: `Pack ${i}`, items })),
  );
  expect(await world.entries()).toHaveLength(21);
  const { results } = await env.DB.prepare("SELECT seq FROM admin_audit WHERE app_id = ? ORDER BY seq")
    .bind(world.appId)
    .all<{ seq: number }>();
  expect(results.map(({ seq }) => seq)).toEqual(Array.from({ length: 21 }, (_, i) => i + 1));
});

it("the audit ends with the setting in force, even if a response is lost and another setting follows", async () => {
  const world = await makeAuditWorld();
  let isLost = false;
  const losing = faultyD1(env.DB);
  const first = makeClient(world.clock, { DB: losing.d1 });
  vi.mocked(scheduler.wait).mockImplementation(async () => {
    isLost = true;
    await world.send("PUT", "/end-user-auth", { mode: "live", setting: null });
  });
  losing.plan({ fault: "after", at: 2 });
  await first("PUT", `${APPS}/${world.appId}/end-user-auth`, { key, body: hs256 });
  expect(isLost).toBe(true);
  const stored = await env.DB.prepare(
    "SELECT end_user_auth AS setting FROM environments WHERE app_id = ?1 AND mode = 'live'",
  )
    .bind(world.appId)
    .first();
  expect(stored).toEqual({ setting: null });
  expect((await world.entries()).slice(1).map(({ details }) => details)).toEqual([
    { mode: "live", type: "hs256" },
    { mode: "live", type: null },
  ]);
});

it("the list of the audit has the newest entry first, fifty a page by default, and its cursors are stable", async () => {
  const world = await makeAuditWorld();
  for (let i = 0; i < 60; i++) await world.send("POST", "/keys", { kind: "secret", mode: "test" });
  const all = (await world.entries()).toReversed();
  const first = (await world.send("GET", "/audit")).body;
  expect(first.entries).toEqual(all.slice(0, 50));
  await world.send("POST", "/keys", { kind: "secret", mode: "test" });
  const rest = (await world.send("GET", `/audit?cursor=${first.nextCursor}`)).body;
  expect(rest).toEqual({ entries: all.slice(50), nextCursor: null });
  expect(rest.entries.at(-1).action).toBe("app.created");
});

it("the list of the audit rejects a limit out of bounds, and an altered or foreign cursor", async () => {
  const world = await makeAuditWorld();
  const other = await makeAuditWorld();
  await other.send("POST", "/keys", { kind: "secret", mode: "test" });
  const { nextCursor } = (await other.send("GET", "/audit?limit=1")).body;
  expect((await other.send("GET", `/audit?cursor=${nextCursor}`)).body.entries).toHaveLength(1);
  for (const cursor of [nextCursor, `${nextCursor}A`, "", "x"]) {
    expectError(await world.send("GET", `/audit?cursor=${cursor}`), "invalid_request", "cursor");
  }
  for (const limit of ["0", "501", "-1", "x"]) {
    expectError(await world.send("GET", `/audit?limit=${limit}`), "invalid_request", "limit");
  }
});

import { env } from "cloudflare:workers";
import { afterAll, expect, it } from "vitest";
import { hookedD1 } from "../../../support/hooked-d1.ts";
import { expectLedgerInvariants } from "../../../support/invariants.ts";
import { limitsWorld } from "../../../support/limits.ts";
import { makeEndpoint } from "../../../support/webhooks.ts";
import { type Answer, makeClient } from "../../../support/world.ts";

// An erasure of a member replaces the ids that the payer's software chose for the member's usage by keyed hashes (ME6).

afterAll(expectLedgerInvariants);

// Ids begin with `MARK.`: no hash has a dot, so none contains it by chance.
const SECRET = "erasure-secret-of-the-tests-00001";
const NEXT = { ERASURE_SECRET: "erasure-secret-of-the-tests-00002", ERASURE_SECRET_PREVIOUS: SECRET };

/** A payer "u" whose member "ada" has an event, and a reservation of each state, all with ids that name ada. */
async function teamWorld() {
  const isolate = { number: 0 };
  const world = await limitsWorld({ limits: [], bindings: { ERASURE_SECRET: SECRET }, pick: () => isolate.number });
  const { app, clock, use, holdOk, commit, release, callOk } = world;
  const ada = { memberId: "ada" };
  await use(2, { eventId: "MARK.event", ...ada, properties: { name: "MARK." } });
  for (const name of ["open", "charged", "committed", "released", "expired", "late", "extended"])
    await holdOk(5, {
      reservationId: `res_MARK.${name}`,
      ...ada,
      ...(name === "charged" ? { onExpiry: "charge" } : {}),
    });
  await callOk("POST", "/usage/reservations/res_MARK.committed/commit", commitBody(3, "MARK.commit"));
  expect((await release("res_MARK.released")).status).toBe(200);
  for (const name of ["open", "extended"]) await extend(world, `res_MARK.${name}`, 3_600);
  clock.advance(61_000);
  await use(1, { eventId: "settles what is due" });
  await callOk("POST", "/usage/reservations/res_MARK.late/commit", commitBody(4, "MARK.late-commit"));
  await holdOk(5, { reservationId: "res_MARK.to-charge", ...ada, onExpiry: "charge", expiresInSeconds: 120 });
  const erase = async (distinctId = "ada") => {
    expect(await callOk("POST", "/erase-person", { distinctId })).toMatchObject({ status: "completed" });
  };
  /** The ids of the environment's usage, as they are stored. */
  const storedIds = async () => {
    const { results } = await env.DB.prepare(
      `SELECT event_id AS id, reservation_id AS other, account_id, 1 AS kind, seq FROM usage_events WHERE environment_id = ?1
       UNION ALL SELECT id, member_number, account_id, 2, reservation_number FROM reservations WHERE environment_id = ?1
       ORDER BY 3, 4, 5`,
    )
      .bind(app.environments.live.id)
      .all<{ id: string; other: string | number | null }>();
    return results.map(({ id, other }) => ({ id, other }));
  };
  const useAnotherIsolate = () => {
    isolate.number++;
  };
  return { ...world, commit, erase, storedIds, useAnotherIsolate };
}

const commitBody = (count: number, eventId: string) => ({ eventId, quantities: { count } });
const extend = ({ ask }: Awaited<ReturnType<typeof limitsWorld>>, id: string, expiresInSeconds: number) =>
  ask("POST", `/usage/reservations/${id}/extend`, { expiresInSeconds });

const codeOf = ({ status, body }: Answer) => [status, body.error?.code];
const isReplay = ({ status, headers }: Answer) => status === 200 && headers.get("idempotent-replayed") === "true";

/** Each request again that the world has made with ada's ids. */
const repeats = {
  event: ({ event }) => event(2, { eventId: "MARK.event", memberId: "ada", properties: { name: "MARK." } }),
  "list of events": async ({ ask }) => {
    const usage = { userId: "u", memberId: "ada", event: "chat", quantities: { count: 2 } };
    const again = { eventId: "MARK.event", ...usage, properties: { name: "MARK." } };
    const answer = await ask("POST", "/usage/events", [again]);
    const replayed = answer.body.results[0].isReplayed === true ? "true" : "false";
    return { ...answer, headers: new Headers({ "idempotent-replayed": replayed }) };
  },
  reserve: ({ hold }) => hold(5, { reservationId: "res_MARK.open", memberId: "ada" }),
  "reserve, settled": ({ hold }) => hold(5, { reservationId: "res_MARK.committed", memberId: "ada" }),
  "reserve, charged": ({ hold }) => hold(5, { reservationId: "res_MARK.charged", memberId: "ada", onExpiry: "charge" }),
  commit: ({ ask }) => ask("POST", "/usage/reservations/res_MARK.committed/commit", commitBody(3, "MARK.commit")),
  "late commit": ({ ask }) =>
    ask("POST", "/usage/reservations/res_MARK.late/commit", commitBody(4, "MARK.late-commit")),
} satisfies Record<string, (world: Awaited<ReturnType<typeof teamWorld>>) => Promise<Answer>>;

it("an erasure of a member replaces each id of its usage by a hash of the same kind, once, and leaves the other ids", async () => {
  const { erase, storedIds, use } = await teamWorld();
  await use(1, { eventId: "of-bob", memberId: "bob" });
  const before = await storedIds();
  expect(JSON.stringify(before).match(/MARK/g)?.length).toBeGreaterThan(12);
  await erase();
  const after = await storedIds();
  expect(JSON.stringify(after)).not.toContain("MARK.");
  expect(after).toHaveLength(before.length);
  for (const [index, { id, other }] of after.entries()) {
    const was = before[index]?.id ?? "";
    if (!was.includes("MARK.")) expect(id).toBe(was);
    else expect(id).toMatch(was.startsWith("res_") ? /^res_[\w-]{43}$/ : /^[\w-]{43}$/);
    if (typeof other === "string") expect(after.map((row) => row.id)).toContain(other);
  }
});

it.each(Object.entries(repeats))(
  "after an erasure of a member an equal %s is a replay, in each isolate",
  async (_, repeat) => {
    const world = await teamWorld();
    const first = await repeat(world);
    expect(isReplay(first)).toBe(true);
    await world.erase();
    const history = await world.callOk("GET", "/credits/history?userId=u");
    for (const isolate of [0, 1]) {
      const again = await repeat(world);
      expect([isolate, isReplay(again), again.body]).toEqual([isolate, true, first.body]);
      world.useAnotherIsolate();
    }
    expect(await world.callOk("GET", "/credits/history?userId=u")).toEqual(history);
    expect(JSON.stringify(await world.storedIds())).not.toContain("MARK.");
  },
);

const differing = {
  event: ({ event }) => event(3, { eventId: "MARK.event", memberId: "ada" }),
  "event, without the member": ({ event }) => event(1, { eventId: "MARK.event", userId: "v" }),
  "event with a commit's id": ({ event }) => event(3, { eventId: "MARK.commit" }),
  reserve: ({ hold }) => hold(6, { reservationId: "res_MARK.open", memberId: "ada" }),
  "commit with another amount": ({ ask }) =>
    ask("POST", "/usage/reservations/res_MARK.committed/commit", commitBody(4, "MARK.commit")),
  "commit of another reservation": ({ ask }) =>
    ask("POST", "/usage/reservations/res_MARK.open/commit", commitBody(3, "MARK.commit")),
} satisfies Record<string, (world: Awaited<ReturnType<typeof teamWorld>>) => Promise<Answer>>;

it.each(Object.entries(differing))(
  "after an erasure of a member rejects another %s with an id of the member's usage, in each isolate, and debits nothing",
  async (_, send) => {
    const world = await teamWorld();
    await world.grant("v");
    await world.erase();
    const history = await world.callOk("GET", "/credits/history?userId=u");
    for (const isolate of [0, 1]) {
      expect([isolate, ...codeOf(await send(world))]).toEqual([isolate, 409, "idempotency_conflict"]);
      world.useAnotherIsolate();
    }
    expect(await world.callOk("GET", "/credits/history?userId=u")).toEqual(history);
  },
);

it.each([0, 1])(
  "an open reservation of an erased member is read, extended and committed once by its id, in isolate %s",
  async (isolate) => {
    const world = await teamWorld();
    const { ask, callOk, erase, storedIds } = world;
    const id = "res_MARK.open";
    const before = await callOk("GET", `/usage/reservations/${id}`);
    await erase();
    if (isolate > 0) world.useAnotherIsolate();
    expect(await callOk("GET", `/usage/reservations/${id}`)).toEqual({ ...before, memberId: expect.any(String) });
    const extended = await extend(world, id, 7_200);
    expect([extended.status, extended.body.reservationId, extended.body.expiresAt > before.expiresAt]).toEqual([
      200,
      id,
      true,
    ]);
    const commit = () =>
      ask("POST", `/usage/reservations/${id}/commit`, { ...commitBody(4, "after"), properties: { name: "MARK." } });
    const committed = await commit();
    expect(committed.body).toMatchObject({ eventId: "after", debits: [{ amount: 4 }] });
    expect(isReplay(await commit())).toBe(true);
    const again = await ask("POST", `/usage/reservations/${id}/commit`, commitBody(4, "once more"));
    expect(codeOf(again)).toEqual([409, "reservation_closed"]);
    expect(await callOk("GET", `/usage/reservations/${id}`)).toMatchObject({ status: "committed", eventId: "after" });
    const stored = (await storedIds()).filter((row) => row.id === "after");
    expect(stored).toEqual([{ id: "after", other: expect.stringMatching(/^res_[\w-]{43}$/) }]);
    expect(await callOk("GET", "/usage/events?eventId=after")).toMatchObject({ memberId: null, properties: null });
    expect(JSON.stringify(await storedIds())).not.toContain("MARK.");
  },
);

it.each([0, 1])(
  "reservations of an erased member are released and committed late by their ids, in isolate %s",
  async (isolate) => {
    const world = await teamWorld();
    const { ask, release, erase, callOk, storedIds } = world;
    await erase();
    if (isolate > 0) world.useAnotherIsolate();
    for (const id of ["res_MARK.open", "res_MARK.released"]) {
      const { status, body } = await release(id);
      expect([status, body]).toEqual([
        200,
        { reservationId: id, status: "released", returned: [expect.objectContaining({ amount: 5 })] },
      ]);
    }
    expect((await release("res_MARK.expired")).body).toMatchObject({
      reservationId: "res_MARK.expired",
      status: "expired",
    });
    const late = () => ask("POST", "/usage/reservations/res_MARK.expired/commit", commitBody(2, "late"));
    expect((await late()).status).toBe(200);
    expect(isReplay(await late())).toBe(true);
    for (const id of ["res_MARK.committed", "res_MARK.charged"])
      expect(codeOf(await release(id))).toEqual([409, "reservation_closed"]);
    expect(codeOf(await release("res_MARK.none"))).toEqual([404, "reservation_not_found"]);
    expect((await callOk("GET", "/credits/verify?userId=u")).isSound).toBe(true);
    expect(JSON.stringify(await storedIds())).not.toContain("MARK.");
  },
);

it("a reservation of an erased member is charged once when it expires, and its id finds the charge", async () => {
  const world = await teamWorld();
  const { clock, use, callOk, erase, storedIds, hold, ask } = world;
  await erase();
  clock.advance(600_000);
  await use(1, { eventId: "settles the charge" });
  const id = "res_MARK.to-charge";
  expect(await callOk("GET", `/usage/reservations/${id}`)).toMatchObject({ status: "committed", eventId: id });
  expect(await callOk("GET", `/usage/events?eventId=${id}`)).toMatchObject({ eventId: id, quantities: { count: 5 } });
  expect(
    isReplay(await hold(5, { reservationId: id, memberId: "ada", onExpiry: "charge", expiresInSeconds: 120 })),
  ).toBe(true);
  expect(codeOf(await ask("POST", `/usage/reservations/${id}/commit`, commitBody(5, "again")))).toEqual([
    409,
    "reservation_closed",
  ]);
  const charges = (await storedIds()).filter((row) => row.id === row.other);
  expect(charges).toHaveLength(2);
  expect(JSON.stringify(await storedIds())).not.toContain("MARK.");
  expect((await callOk("GET", "/credits/verify?userId=u")).isSound).toBe(true);
});

it("requests are recognised by the previous secret too, and after the erasure is lifted", async () => {
  const world = await teamWorld();
  const { callOk, app, clock } = world;
  const { erasureId } = await callOk("POST", "/erase-person", { distinctId: "ada" });
  const rotated = makeClient(clock, NEXT);
  const ask = (method: string, path: string, body?: object) =>
    rotated(method, `/api/v1${path}`, { key: app.keys.sk_live, ...(body === undefined ? {} : { body }) });
  const event = { eventId: "MARK.event", userId: "u", memberId: "ada", event: "chat", quantities: { count: 2 } };
  const expectReplays = async () => {
    expect(isReplay(await ask("POST", "/usage/events", { ...event, properties: { name: "MARK." } }))).toBe(true);
    expect(codeOf(await ask("POST", "/usage/events", { ...event, quantities: { count: 3 } }))).toEqual([
      409,
      "idempotency_conflict",
    ]);
    expect((await ask("GET", "/usage/reservations/res_MARK.open")).status).toBe(200);
  };
  await expectReplays();
  expect((await ask("POST", `/erasures/${erasureId}/lift`, {})).status).toBe(200);
  await expectReplays();
  expect((await ask("POST", "/usage/events", { ...event, eventId: "MARK.new" })).status).toBe(200);
});

it("an erasure of the payer after that of its member gives the usage random ids, by which nothing is found", async () => {
  const { erase, storedIds, ask, app } = await teamWorld();
  await erase();
  const hashed = new Set((await storedIds()).map(({ id }) => id));
  await erase("u");
  const left = await storedIds();
  expect(left.filter(({ id }) => hashed.has(id))).toEqual([]);
  expect(codeOf(await ask("GET", "/usage/reservations/res_MARK.open"))).toEqual([404, "reservation_not_found"]);
  const named =
    "SELECT 1 FROM reservations WHERE environment_id = ? AND (member_number IS NOT NULL OR request_hash <> '')";
  expect((await env.DB.prepare(named).bind(app.environments.live.id).all()).results).toEqual([]);
});

/** The trips of an erasure, which reads, starts, erases a page and completes. */
const TRIPS = [1, 2, 3, 4, 5, 6, 7];

it.each(TRIPS)(
  "requests before trip %s of the erasure settle and repeat the member's usage once, and leave no id of it",
  async (amid) => {
    const world = await teamWorld();
    const { ask, clock, use, callOk, storedIds, app } = world;
    await makeEndpoint(app.environments.live);
    const commitOpen = () => ask("POST", "/usage/reservations/res_MARK.open/commit", commitBody(4, "amid"));
    const commitLate = () => ask("POST", "/usage/reservations/res_MARK.expired/commit", commitBody(2, "late amid"));
    const send = async () => {
      for (const repeat of Object.values(repeats)) expect(isReplay(await repeat(world))).toBe(true);
      expect((await extend(world, "res_MARK.extended", 7_200)).status).toBe(200);
      for (const commit of [commitOpen, commitLate]) expect((await commit()).status).toBe(200);
      clock.advance(600_000);
      await use(1, { eventId: "settles the charge" });
    };
    let trips = 0;
    const hooked = hookedD1(env.DB, async () => {
      if (++trips === amid) await send();
    });
    const eraser = makeClient(clock, { DB: hooked, ERASURE_SECRET: SECRET });
    const body = { distinctId: "ada" };
    const erased = await eraser("POST", "/api/v1/erase-person", { key: app.keys.sk_live, body });
    expect(erased.body).toMatchObject({ status: "completed" });
    // Requests amid the erasure may take another page.
    expect(trips).toBeGreaterThanOrEqual(TRIPS.length);
    for (const isolate of [0, 1]) {
      for (const repeat of [...Object.values(repeats), commitOpen, commitLate])
        expect([isolate, isReplay(await repeat(world))]).toEqual([isolate, true]);
      world.useAnotherIsolate();
    }
    const stored = await storedIds();
    const messages = "SELECT data FROM webhook_messages WHERE environment_id = ?";
    const { results } = await env.DB.prepare(messages).bind(app.environments.live.id).all();
    expect(JSON.stringify([stored, results])).not.toContain("MARK.");
    const ids = new Set(stored.map(({ id }) => id));
    expect(stored.filter(({ other }) => typeof other === "string" && !ids.has(other))).toEqual([]);
    expect(await callOk("GET", "/usage/reservations/res_MARK.to-charge")).toMatchObject({ status: "committed" });
    expect((await callOk("GET", "/credits/verify?userId=u")).isSound).toBe(true);
  },
);

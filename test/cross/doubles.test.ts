import { env } from "cloudflare:workers";
import { expect, it, onTestFinished, vi } from "vitest";
import { countingD1 } from "../support/counting-d1.ts";
import { farD1 } from "../support/far-d1.ts";
import { makeApp } from "../support/world.ts";
import { wrappedD1 } from "../support/wrapped-d1.ts";

const SELECT_APP = "SELECT id, name FROM apps WHERE id = ?";

it("a wrapped D1 answers as D1 does, however a statement is sent", async () => {
  const { appId } = await makeApp();
  const trips: unknown[] = [];
  const wrapped = wrappedD1(env.DB, async (send, statements, start) => {
    trips.push([start, ...statements]);
    return send(statements);
  });
  for (const start of [undefined, "first-primary"] as const) {
    for (const d1 of [env.DB.withSession(start), wrapped.withSession(start)]) {
      const bound = d1.prepare(SELECT_APP).bind(appId);
      const row = { id: appId, name: "Test" };
      expect((await bound.all()).results).toEqual([row]);
      expect((await bound.run()).results).toEqual([row]);
      expect(await bound.raw()).toEqual([[appId, "Test"]]);
      expect(await d1.prepare("SELECT 1 AS n, 2 AS n").raw()).toEqual([[1, 2]]);
      expect([await bound.first(), await bound.first("name")]).toEqual([row, "Test"]);
      expect(await d1.prepare(SELECT_APP).bind("nobody").first("name")).toBeNull();
      const [none, one] = await d1.batch([d1.prepare(SELECT_APP).bind("nobody"), bound]);
      expect([none?.results, one?.results]).toEqual([[], [row]]);
      expect(d1.getBookmark()).toEqual(expect.any(String));
      await expect(d1.prepare("SELECT no_such").all()).rejects.toThrow("no such column: no_such");
    }
  }
  expect(trips).toHaveLength(18);
  expect(trips.slice(7, 11)).toEqual([
    ["first-unconstrained", { text: SELECT_APP, values: ["nobody"] }, { text: SELECT_APP, values: [appId] }],
    ["first-unconstrained", { text: "SELECT no_such", values: [] }],
    ["first-primary", { text: SELECT_APP, values: [appId] }],
    ["first-primary", { text: SELECT_APP, values: [appId] }],
  ]);
});

it("a wrapped D1 rejects a batch with a statement of another database", async () => {
  const wrapped = countingD1(env.DB).d1;
  await expect(wrapped.batch([env.DB.prepare("SELECT 1")])).rejects.toThrow("another database");
});

it("a far D1 counts concurrent trips once in sequence, and every write at the primary", async () => {
  const far = farD1(env.DB, { primaryMs: 0, replicaMs: 0 });
  const near = far.d1.withSession("first-unconstrained");
  const primary = far.d1.withSession("first-primary");
  const read = (d1: Pick<D1Database, "prepare">) => d1.prepare("SELECT 1").all();
  await read(primary);
  await Promise.all([read(near), read(near), read(far.d1)]);
  await read(near);
  expect(far.spent()).toEqual({ inSequence: 3, primary: 2, replica: 3 });
  const { appId } = await makeApp();
  await near.prepare("UPDATE apps SET name = 'Far' WHERE id = ?").bind(appId).run();
  await expect(read({ prepare: () => near.prepare("SELECT no_such") })).rejects.toThrow();
  expect(far.spent()).toEqual({ inSequence: 2, primary: 1, replica: 1 });
  expect(far.spent()).toEqual({ inSequence: 0, primary: 0, replica: 0 });
});

it("a far D1 delays each answer by the distance of the primary or the replica", async () => {
  const far = farD1(env.DB, { primaryMs: 3, replicaMs: 2 });
  const wait = vi.spyOn(scheduler, "wait");
  onTestFinished(() => wait.mockRestore());
  for (const start of ["first-primary", "first-unconstrained"]) {
    await far.d1.withSession(start).prepare("SELECT 1").all();
  }
  expect(wait.mock.calls.map(([ms]) => ms)).toEqual([3, 2]);
});

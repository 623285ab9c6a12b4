import { env } from "cloudflare:workers";
import { afterAll, expect, it } from "vitest";
import { expectLedgerInvariants } from "../support/invariants.ts";
import { limitsWorld } from "../support/limits.ts";
import { createRandom, type Random } from "../support/random.ts";
import { RANDOM_SEED, soakCount, timeoutOf } from "../support/soak.ts";
import type { Answer } from "../support/world.ts";

// Random histories of a team's usage run in two applications. Only one of them erases members. Apart from requests that name an
// erased member, both answer alike, and the payers' books are the same (ME6).

const HISTORIES = soakCount(2, 60);
const STEPS = 50;
const ISOLATES = 3;
/** A part of every id of a member, and of the ids of its usage. */
/** No hash has a dot, so none contains it by chance. */
const MARK = "MARK.";
const MEMBERS = [`${MARK}-mia`, `${MARK}-ned`] as const;

afterAll(expectLedgerInvariants);

type World = Awaited<ReturnType<typeof limitsWorld>>;

interface Hold {
  readonly id: string;
  readonly memberId: string | undefined;
  /** Whether its member was erased. Then its commit is recorded without the member, so the id of the commit stays. */
  isCleared: boolean;
}

interface Sent {
  readonly path: string;
  readonly body: { readonly [field: string]: unknown; readonly quantities: { readonly count: number } };
}

/** The part of an answer that is the same in both applications. */
const comparable = ({ status, body, headers }: Answer) => {
  const own = new Set(["balanceId", "packId", "requestId", "memberId", "message", "hint"]);
  const text = JSON.stringify(body.error?.code ?? body, (name, value) => (own.has(name) ? undefined : value));
  return { status, replayed: headers.get("idempotent-replayed"), body: JSON.parse(text) };
};

async function createHistory(random: Random, isolates: Random) {
  const options = { limits: [{ amount: 150 }], pick: () => isolates.integer(0, ISOLATES - 1) };
  const [erasing, other] = [await limitsWorld(options), await limitsWorld(options)];
  for (const world of [erasing, other]) await world.grant("v");
  const erased = new Map<string, string>();
  const [holds, sent]: [Hold[], Sent[]] = [[], []];
  let ids = 0;
  const nextId = (prefix: string, isMarked: boolean) => `${prefix}${ids++}${isMarked ? `-${MARK}` : ""}`;

  const inBoth = async (ask: (world: World) => Promise<Answer>): Promise<Answer> => {
    const answer = await ask(erasing);
    expect(comparable(answer)).toEqual(comparable(await ask(other)));
    return answer;
  };
  const post = async ({ path, body }: Sent) => {
    const answer = await inBoth((world) => world.ask("POST", path, body));
    if (answer.status === 200) sent.push({ path, body });
    return answer;
  };
  /** Sends usage that may name a member. Returns whether it was recorded. */
  const use = async (request: Sent, memberId: string | undefined, hasHappened: boolean) => {
    if (memberId === undefined || !erased.has(memberId) || hasHappened) return (await post(request)).status === 200;
    const { status, body } = await erasing.ask("POST", request.path, request.body);
    expect([status, body.error]).toMatchObject([409, { code: "person_erased", details: { field: "memberId" } }]);
    // A rejection settles the payer's due holds, so the other application rejects the request too, by its usage limit.
    const tooMuch = { ...request.body, quantities: { count: 1_000 }, onShortage: undefined };
    expect((await other.ask("POST", request.path, tooMuch)).status).toBe(429);
    return false;
  };
  const someUsage = (prefix: string) => {
    const memberId = random.chance(0.8) ? random.pick(MEMBERS) : undefined;
    const id = nextId(prefix, memberId !== undefined && !erased.has(memberId));
    const member = memberId === undefined ? {} : { memberId };
    const usage = { userId: random.pick(["u", "v"]), event: "chat", quantities: { count: random.integer(1, 9) } };
    return { id, memberId, body: { ...usage, ...member } };
  };

  const steps = {
    event: async () => {
      const { id, memberId, body } = someUsage("e");
      const onShortage = random.pick(["partial", "reject"] as const);
      const properties = memberId === undefined ? {} : { name: erased.has(memberId) ? "erased" : MARK };
      const request = { path: "/usage/events", body: { ...body, eventId: id, onShortage, properties } };
      await use(request, memberId, onShortage === "partial");
    },
    reserve: async () => {
      const { id, memberId, body } = someUsage("res_");
      const more = { onExpiry: random.pick(["charge", "return"] as const), expiresInSeconds: random.integer(30, 300) };
      const request = { path: "/usage/reservations", body: { ...body, ...more, reservationId: id } };
      if (await use(request, memberId, false)) holds.push({ id, memberId, isCleared: false });
    },
    commit: async () => {
      const hold = random.pick(holds);
      const eventId = nextId("c", hold.memberId !== undefined && !hold.isCleared);
      await post({
        path: `/usage/reservations/${hold.id}/commit`,
        body: { eventId, quantities: { count: random.integer(0, 9) } },
      });
    },
    release: () => {
      const { id } = random.pick(holds);
      return inBoth((world) => world.release(id));
    },
    extend: () => {
      const [{ id }, expiresInSeconds] = [random.pick(holds), random.integer(30, 600)];
      return inBoth((world) => world.ask("POST", `/usage/reservations/${id}/extend`, { expiresInSeconds }));
    },
    again: async () => {
      const { path, body } = random.pick(sent);
      const { status, headers } = await inBoth((world) => world.ask("POST", path, body));
      expect([status, headers.get("idempotent-replayed")]).toEqual([200, "true"]);
    },
    altered: async () => {
      const { path, body } = random.pick(sent);
      const quantities = { count: body.quantities.count + 1 };
      const answer = await inBoth((world) => world.ask("POST", path, { ...body, quantities }));
      expect(answer.body.error.code).toBe("idempotency_conflict");
    },
    read: () => {
      const { id } = random.pick(holds);
      // The event of a commit may have a hash.
      return inBoth(async (world) => {
        const answer = await world.ask("GET", `/usage/reservations/${id}`);
        return { ...answer, body: { ...answer.body, eventId: answer.body.eventId !== null } };
      });
    },
    wait: async () => {
      const ms = random.integer(1, 90) * 1_000;
      for (const { clock } of [erasing, other]) clock.advance(ms);
    },
    erase: async () => {
      const memberId = random.pick(MEMBERS);
      const { status, erasureId } = await erasing.callOk("POST", "/erase-person", { distinctId: memberId });
      expect(status).toBe("completed");
      erased.set(memberId, erasureId);
      for (const hold of holds) if (hold.memberId === memberId) hold.isCleared = true;
    },
    lift: async () => {
      const [memberId, erasureId] = random.pick([...erased]);
      await erasing.callOk("POST", `/erasures/${erasureId}/lift`, {});
      erased.delete(memberId);
    },
  };
  type Step = keyof typeof steps;
  const isPossible = (step: Step): boolean => {
    if (step === "lift") return erased.size > 0;
    if (step === "again" || step === "altered") return sent.length > 0;
    return !["commit", "release", "extend", "read"].includes(step) || holds.length > 0;
  };
  const weights: Record<Step, number> = {
    ...{
      event: 4,
      reserve: 5,
      commit: 3,
      release: 1,
      extend: 1,
      again: 5,
      altered: 2,
      read: 2,
      wait: 2,
      erase: 2,
      lift: 1,
    },
  };
  const all = Object.entries(weights).flatMap(([step, weight]) => Array<Step>(weight).fill(step as Step));
  return { erasing, other, steps, someStep: () => random.pick(all.filter(isPossible)) };
}

/** The payers' books, without the ids of this application, and of usage, which may be hashes. */
async function booksOf({ callOk, checkpoints }: World) {
  const left = new Set(["id", "balanceId", "packId", "by", "eventId", "reservationId", "limitId", "nextCursor"]);
  const books = await Promise.all(
    ["u", "v"].map(async (userId) => {
      expect((await callOk("GET", `/credits/verify?userId=${userId}`)).isSound).toBe(true);
      return [await callOk("GET", `/credits/history?userId=${userId}&limit=100`), await checkpoints(userId)];
    }),
  );
  return JSON.parse(JSON.stringify(books, (name, value) => (left.has(name) ? undefined : value)));
}

/** All rows of the usage and the members of an application. */
async function rowsOf({ app }: World): Promise<string> {
  const tables = ["usage_events", "reservations", "members", "webhook_messages", "erasure_ids"];
  const rows = tables.map(async (table) => {
    const all = env.DB.prepare(`SELECT * FROM ${table} WHERE environment_id = ?`).bind(app.environments.live.id).all();
    return (await all).results;
  });
  return JSON.stringify(await Promise.all(rows));
}

it("erasures of members change no amount and no answer of a random history, and leave no id of the members or of their usage", {
  timeout: timeoutOf(HISTORIES, 60_000),
}, async () => {
  for (let seed = 1; seed <= HISTORIES; seed++) {
    const { erasing, other, steps, someStep } = await createHistory(
      createRandom(RANDOM_SEED + seed),
      createRandom(RANDOM_SEED - seed),
    );
    const done: string[] = [];
    try {
      for (let count = 0; count < STEPS; count++) {
        const step = someStep();
        done.push(step);
        await steps[step]();
      }
      expect(await booksOf(erasing)).toEqual(await booksOf(other));
      for (const distinctId of MEMBERS) await erasing.callOk("POST", "/erase-person", { distinctId });
      expect(await rowsOf(erasing)).not.toContain(MARK);
      expect(await rowsOf(other)).toContain(MARK);
    } catch (error) {
      throw new Error(`seed ${RANDOM_SEED} + ${seed}: ${done.join(", ")}`, { cause: error });
    }
  }
});

import { expect, it, vi } from "vitest";
import {
  alias,
  type ClaimsEvent,
  type ClaimsWorld,
  type Dialect,
  identify,
  makeClaimsWorld,
  newDevice,
  seen,
  WITH_SECRET_KEY,
} from "../support/claims-world.ts";
import { isSoak, RANDOM_SEED, soakPart, timeoutOf } from "../support/soak.ts";
import { makeKey } from "../support/world.ts";

// Each test runs hundreds of attacks, and must also pass on a slow machine.
vi.setConfig({ testTimeout: timeoutOf(isSoak ? 400 : 100, 6_000) });

/** The ways of sending an attack. The soak sends each attack in all ways, and the other tests send it in one. */
const WAYS_OF_SENDING: readonly { readonly dialect: Dialect; readonly isOneBatch: boolean }[] = [
  { dialect: "v0", isOneBatch: true },
  { dialect: "v1", isOneBatch: false },
  { dialect: "v1", isOneBatch: true },
  { dialect: "v0", isOneBatch: false },
];

/** All data of the victim contains the marker, which nobody else knows. */
interface Victim {
  readonly id: string;
  readonly marker: string;
}

interface Cell {
  readonly name: string;
  readonly victim: Victim;
  readonly attacker: string;
  readonly attackerState: State;
  readonly links: readonly ClaimsEvent[];
  readonly dialect: Dialect;
  readonly isOneBatch: boolean;
  /** Whether the attacker is erased before the victim is exported. */
  readonly isErased: boolean;
}

type State =
  | "nothing yet"
  | "unidentified"
  | "identified"
  | "credits alone"
  | "usage alone"
  | "consent alone"
  | (typeof USER_MAKERS)[number];

/** The sources that make an id a user: each source other than a page, and the page of the signed-in user. */
const USER_MAKERS = [
  "an event of a server",
  "a $set of a server",
  "an $identify of a server",
  "a consent of a server",
  "refused usage",
  "a reservation",
  "a payment at Stripe",
  "a verified claim of its own",
  "a verified claim on it",
  "an event as a signed-in user",
] as const;

const isUserMaker = (state: State): boolean => USER_MAKERS.some((one) => one === state);

const marked = ({ marker }: Victim) => ({ properties: { note: marker }, set: { name: marker } });

/** The page's events that put somebody into a state. */
function eventsFor(state: State, victim: Victim): ClaimsEvent[] {
  if (state === "unidentified") return [seen(victim.id, marked(victim))];
  if (state === "identified") return [identify(victim.id, undefined, marked(victim)), seen(victim.id, marked(victim))];
  if (!isUserMaker(state)) return [];
  const visit = seen(victim.id, { properties: { note: victim.marker } });
  if (state !== "an event as a signed-in user") return [visit];
  return [visit, seen(victim.id, { properties: { $is_identified: true, note: victim.marker } })];
}

/** The server's events that put somebody into a state. */
function serversEventsFor(state: State, victim: Victim): ClaimsEvent[] {
  const { id, marker } = victim;
  if (state === "an event of a server") return [seen(id, { ...WITH_SECRET_KEY, properties: { note: marker } })];
  if (state === "a $set of a server") return [seen(id, { ...WITH_SECRET_KEY, ...marked(victim) })];
  if (state === "an $identify of a server") return [identify(id, undefined, { ...WITH_SECRET_KEY, ...marked(victim) })];
  if (state === "a verified claim of its own") {
    const other = seen(`crm-${id}`, { ...WITH_SECRET_KEY, properties: { note: marker } });
    return [identify(id, other.id, WITH_SECRET_KEY), other];
  }
  if (state === "a verified claim on it") return [alias(`owner-${id}`, id, WITH_SECRET_KEY)];
  return [];
}

async function putInState(world: ClaimsWorld, state: State, { id, marker }: Victim): Promise<void> {
  if (state === "credits alone") await world.grant(id, marker);
  if (state === "usage alone") await world.use(id, marker);
  if (state === "consent alone") await world.consent(id, "user token", marker);
  if (state === "a consent of a server") await world.consent(id, "secret key", marker);
  if (state === "refused usage") await world.beRejected(id, marker);
  if (state === "a reservation") await world.reserve(id);
  if (state === "a payment at Stripe") await world.pay(id);
}

/** The kind of key that an attacker sends with. */
type AttackersKey = "publishable" | "relay";

/** The events that an attacker's page may send. Events under the victim's own id belong to the victim, so they carry the marker. */
const ATTACKS: Readonly<Record<string, (attacker: string, victim: Victim, device: string) => ClaimsEvent[]>> = {
  "identify the attacker, who was the victim": (a, v) => [identify(a, v.id)],
  "identify the victim, who was the attacker": (a, v) => [identify(v.id, a, marked(v))],
  "alias the victim to the attacker": (a, v) => [alias(a, v.id)],
  "alias the attacker to the victim": (a, v) => [alias(v.id, a, marked(v))],
  "all four": (a, v) => [alias(v.id, a, marked(v)), alias(a, v.id), identify(v.id, a, marked(v)), identify(a, v.id)],
  "identify a device, alias the victim to it": (a, v, d) => [identify(a, d), alias(d, v.id)],
  "alias the victim to a device, identify it": (a, v, d) => [alias(d, v.id), identify(a, d)],
  "alias the attacker to a device that the victim identifies": (a, v, d) => [alias(d, a), identify(v.id, d, marked(v))],
  "identify a device after the victim": (a, v, d) => [identify(v.id, d, marked(v)), identify(a, d)],
  "identify a device before the victim": (a, v, d) => [identify(a, d), identify(v.id, d, marked(v))],
  "alias a device to both": (a, v, d) => [alias(a, d), alias(v.id, d, marked(v))],
  "alias both to a device": (a, v, d) => [alias(d, a), alias(d, v.id), identify(a, d)],
};

const ATTACKER_STATES = ["nothing yet", "unidentified", "identified", "credits alone"] as const;

const isDevice = (id: string): boolean => /^[0-9a-f]{8}-/.test(id);

/** Combines every attacker, every attack and its ways of sending, each with its own victim. */
function cellsAgainst(state: State, newVictimId: () => string, turn: number): Cell[] {
  const cells: Cell[] = [];
  for (const [index, attackerState] of [...ATTACKER_STATES, ...ATTACKER_STATES].entries()) {
    for (const [at, [attack, links]] of Object.entries(ATTACKS).entries()) {
      // Each kind of user gets a twentieth of the attacks, which differs from run to run. The soak runs all of them.
      const fraction = state === "nothing yet" ? 3 : 20;
      if (!isSoak && (3 * index + at + turn + RANDOM_SEED) % fraction > 0) continue;
      const inTurn = WAYS_OF_SENDING.filter((_, way) => isSoak || way === (index + at + turn) % WAYS_OF_SENDING.length);
      for (const way of inTurn) {
        const isErased = isSoak || cells.length % (isUserMaker(state) ? 3 : 8) === 0;
        const victim = { id: newVictimId(), marker: `marker-${crypto.randomUUID()}` };
        const attacker = index < ATTACKER_STATES.length ? `mallory_${crypto.randomUUID()}` : newDevice();
        const kind = isDevice(attacker) ? "a UUID" : "a name";
        const inBatch = way.isOneBatch ? ", one batch" : "";
        const name = `${kind}, ${attackerState}: ${attack} (${way.dialect}${inBatch}, PROOF_SEED=${RANDOM_SEED})`;
        cells.push({
          name,
          victim,
          attacker,
          attackerState,
          links: links(attacker, victim, newDevice()),
          ...way,
          isErased,
        });
      }
    }
  }
  return cells;
}

async function sendInTwo(world: ClaimsWorld, events: readonly ClaimsEvent[]): Promise<void> {
  const half = Math.ceil(events.length / 2);
  if (half > 0) await world.send(events.slice(0, half), "v0");
  if (events.length > half) await world.send(events.slice(half), "v1");
}

async function attackAll(world: ClaimsWorld, cells: readonly Cell[], by: AttackersKey): Promise<void> {
  const key = by === "relay" ? await makeKey(world.app.environments.live, "relay") : undefined;
  for (const dialect of ["v0", "v1"] as const) {
    const own = cells.filter((cell) => cell.dialect === dialect);
    const atOnce = own.filter((cell) => cell.isOneBatch).flatMap((cell) => cell.links);
    if (atOnce.length > 0) await world.send(atOnce, dialect, key);
    for (let step = 0; ; step++) {
      const links = own.filter((cell) => !cell.isOneBatch).flatMap((cell) => cell.links.slice(step, step + 1));
      if (links.length === 0) break;
      await world.send(links, dialect, key);
    }
  }
}

/**
 * The damage of an attack: the victim's data in the attacker's export, the data that the attacker's erasure deletes, and the data
 * that the victim's own export then lacks.
 */
async function flawsOf(world: ClaimsWorld, cell: Cell, state: State, events: readonly ClaimsEvent[]) {
  const { name, victim, attacker } = cell;
  const flaws: string[] = [];
  const stolen = await world.exportOf(attacker);
  if (JSON.stringify(stolen).includes(victim.marker)) flaws.push(`leaks: ${name}`);
  if (stolen.person?.distinctIds.some((entry) => entry.distinctId === victim.id)) flaws.push(`joins: ${name}`);
  if ((await world.wouldErase(attacker)).includes(victim.id)) flaws.push(`would erase: ${name}`);
  if (cell.isErased) await world.erase(attacker);
  const kept = await world.exportOf(victim.id);
  const uuids = new Set(kept.events.analytics.map(({ uuid }) => uuid));
  const sent = [...events, ...cell.links].filter((event) => event.id === victim.id);
  if (!sent.every(({ uuid }) => uuids.has(uuid))) flaws.push(`victim lacks events: ${name}`);
  if (sent.some(({ set }) => set !== undefined) && kept.person?.properties.name !== victim.marker) {
    flaws.push(`victim lacks properties: ${name}`);
  }
  const parts = {
    "credits alone": kept.person?.credits.balances,
    "usage alone": kept.events.metering,
    "consent alone": kept.consentLog,
    "a consent of a server": kept.consentLog,
    "a verified claim of its own": kept.person?.distinctIds.some(({ distinctId }) => distinctId === `crm-${victim.id}`)
      ? kept.events.analytics
      : [],
  };
  const part = state in parts ? parts[state as keyof typeof parts] : undefined;
  if (state in parts && !JSON.stringify(part ?? []).includes(victim.marker))
    flaws.push(`victim lacks ${state}: ${name}`);
  return flaws;
}

async function flawsAgainst(
  state: State,
  moment: "before" | "after",
  newVictimId: () => string,
  turn: number,
  by: AttackersKey = "publishable",
) {
  const world = await makeClaimsWorld();
  const cells = cellsAgainst(state, newVictimId, turn);
  const becoming = new Map(cells.map((cell) => [cell, eventsFor(state, cell.victim)]));
  const becomeVictims = async () => {
    await sendInTwo(world, [...becoming.values()].flat());
    await sendInTwo(
      world,
      cells.flatMap(({ victim }) => serversEventsFor(state, victim)),
    );
    for (const { victim } of cells) await putInState(world, state, victim);
  };
  const attackers = cells.map(({ attacker, attackerState }) => ({
    id: attacker,
    marker: "the attacker's",
    attackerState,
  }));
  await sendInTwo(
    world,
    attackers.flatMap((attacker) => eventsFor(attacker.attackerState, attacker)),
  );
  for (const attacker of attackers) await putInState(world, attacker.attackerState, attacker);
  if (moment === "before") await becomeVictims();
  await attackAll(world, cells, by);
  if (moment === "after") await becomeVictims();
  const flaws: string[] = [];
  const tell = soakPart(`takeovers, ${state}, ${moment}`, cells.length, "attacks");
  for (const cell of cells) {
    flaws.push(...(await flawsOf(world, cell, state, becoming.get(cell) ?? [])));
    tell();
  }
  return flaws;
}

const BECOMING = ["unidentified", "identified", "credits alone", "usage alone", "consent alone"] as const;

const newUserId = () => `user_${crypto.randomUUID()}`;

it("a publishable key cannot bring a user's data into another's export, or remove data from a user's own when the user is only known from the attack", async () => {
  expect(await flawsAgainst("nothing yet", "before", newUserId, 0)).toEqual([]);
});

it.each(BECOMING.map((state, turn) => [state, turn] as const))(
  "a publishable key cannot bring a user's data into another's export, or remove data from a user's own when the user is or has %s",
  async (state, turn) => {
    expect(await flawsAgainst(state, "before", newUserId, turn)).toEqual([]);
  },
);

it.each(BECOMING.map((state, turn) => [state, turn] as const))(
  "a publishable key cannot bring a user's data into another's export, or remove data from a user's own when the user is or has %s only later",
  async (state, turn) => {
    expect(await flawsAgainst(state, "after", newUserId, turn)).toEqual([]);
  },
);

// Anybody who knows a device's id may claim it while it is not a user: the exception of P2.
const users = BECOMING.filter((state) => state !== "unidentified").map((state, turn) => [state, turn] as const);

it.each(users)(
  "a publishable key cannot reach the data of a user whose id looks like a device's because it is or has %s",
  async (state, turn) => {
    expect(await flawsAgainst(state, "before", newDevice, turn)).toEqual([]);
  },
);

it.each(users)(
  "a publishable key cannot reach the data of a user whose id looks like a device's because it is or has %s later, although it was claimed before",
  async (state, turn) => {
    expect(await flawsAgainst(state, "after", newDevice, turn)).toEqual([]);
  },
);

const makers = USER_MAKERS.map((state, turn) => [state, turn] as const);

it.each(makers)(
  "a publishable key cannot reach the data of a user whose id looks like a device's because there is %s",
  async (state, turn) => {
    expect(await flawsAgainst(state, "before", newDevice, turn)).toEqual([]);
  },
);

it.each(makers)(
  "a publishable key cannot reach the data of a user whose id looks like a device's because there is %s later, although it was claimed before",
  async (state, turn) => {
    expect(await flawsAgainst(state, "after", newDevice, turn)).toEqual([]);
  },
);

it("a relay key reaches no more than a publishable key when the user is identified", async () => {
  expect(await flawsAgainst("identified", "before", newUserId, 0, "relay")).toEqual([]);
});

it.each(USER_MAKERS.map((state, turn) => [state, turn] as const))(
  "a relay key reaches no more than a publishable key when a device's id has %s",
  async (state, turn) => {
    expect(await flawsAgainst(state, "before", newDevice, turn, "relay")).toEqual([]);
  },
);

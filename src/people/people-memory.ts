import { sql } from "drizzle-orm";
import { knownText } from "../db/known-tombstones.ts";
import { insertFrom, query, type ValueOf } from "../db/query.ts";
import { distinctIds, idProperties } from "../db/schema.ts";
import type { Statement } from "../db/sql.ts";
import { guards } from "../db/views.ts";
import { rememberPerObject } from "../lib/bounded-memory.ts";
import type { TenantCtx } from "../runtime.ts";
import { linkText, needsStoredPeople, type PersonEvent } from "./claims.ts";
import { changesProperties } from "./id-properties.ts";
import type { SettledId } from "./plan-people.ts";
import { isUserBy } from "./user-marks.ts";

const REMEMBERED_IDS_MAX = 1_000;
/** The most characters of sent texts that an isolate remembers. */
const REMEMBERED_CHARACTERS_MAX = 1_000_000;
const REMEMBERED_MS_MAX = 600_000;
/** After a failed guard, the id is read first for this time. The failure means that another isolate also writes for the id. */
const READ_PEOPLE_FIRST_MS = 1_000;

interface RememberedId {
  readonly id: SettledId;
  readonly characters: number;
  readonly untilMs: number;
}

/** The ids that an isolate remembers, the latest last. Every key contains the environment's id. */
class PeopleMemory {
  readonly #ids = new Map<string, RememberedId>();
  readonly #readFirstUntilMs = new Map<string, number>();
  #characters = 0;

  find(key: string, nowMs: number): SettledId | null {
    const remembered = this.#ids.get(key);
    return remembered === undefined || remembered.untilMs <= nowMs ? null : remembered.id;
  }

  remember(key: string, latest: SettledId, nowMs: number): void {
    const id = mergeSettled(this.find(key, nowMs), latest);
    this.#forget(key);
    if ((this.#readFirstUntilMs.get(key) ?? 0) > nowMs) return;
    const texts = [
      id.distinctId,
      ...(id.properties?.changes ?? []),
      ...id.links.flatMap(({ link, claimed }) => [link, claimed]),
    ];
    const characters = texts.reduce((sum, text) => sum + text.length, 0);
    this.#ids.set(key, { id, characters, untilMs: nowMs + REMEMBERED_MS_MAX });
    this.#characters += characters;
    for (const oldest of this.#ids.keys()) {
      if (this.#ids.size <= REMEMBERED_IDS_MAX && this.#characters <= REMEMBERED_CHARACTERS_MAX) break;
      this.#forget(oldest);
    }
  }

  readFirst(key: string, nowMs: number): void {
    this.#forget(key);
    if (this.#readFirstUntilMs.size >= REMEMBERED_IDS_MAX) this.#readFirstUntilMs.clear();
    this.#readFirstUntilMs.set(key, nowMs + READ_PEOPLE_FIRST_MS);
  }

  #forget(key: string): void {
    const remembered = this.#ids.get(key);
    if (remembered === undefined) return;
    this.#ids.delete(key);
    this.#characters -= remembered.characters;
  }
}

/** How many of an id's latest changes, and of its latest links, are remembered. */
const CHANGES_OF_ID_MAX = 4;

/** Adds the latest settled changes to the remembered ones, which are still settled if the versions are the same. */
function mergeSettled(before: SettledId | null, latest: SettledId): SettledId {
  if (before === null) return latest;
  const links = new Map([...before.links, ...latest.links].map((settled) => [settled.link, settled]));
  const { properties = null } = latest;
  const isSame = properties?.version === before.properties?.version && properties?.bytes === before.properties?.bytes;
  const changes = [...new Set([...(isSame ? (before.properties?.changes ?? []) : []), ...(properties?.changes ?? [])])];
  return {
    distinctId: latest.distinctId,
    properties: properties === null ? before.properties : { ...properties, changes: changes.slice(-CHANGES_OF_ID_MAX) },
    links: [...links.values()].slice(-CHANGES_OF_ID_MAX),
  };
}

const peopleMemoryOf = rememberPerObject(() => new PeopleMemory());

/**
 * Returns the key of an id in the memory. It contains the kind of the caller's key, because each kind has its own rules for links.
 * It contains the number of lifted erasures (in `knownText`), because a lift invalidates the memory (E4).
 */
const peopleMemoryKey = (ctx: TenantCtx, distinctId: string): string => {
  const { environment, caller } = ctx;
  return `${environment.database} ${environment.id} ${knownText(ctx)} ${caller.kind} ${distinctId}`;
};

export function rememberPeople(ctx: TenantCtx, ids: readonly SettledId[], nowMs: number): void {
  for (const id of ids) peopleMemoryOf(ctx.isolate).remember(peopleMemoryKey(ctx, id.distinctId), id, nowMs);
}

/** Lets writes of the next second read the ids of these events first. */
export function readPeopleFirst(ctx: TenantCtx, events: readonly PersonEvent[], nowMs: number): void {
  for (const { distinctId } of events) peopleMemoryOf(ctx.isolate).readFirst(peopleMemoryKey(ctx, distinctId), nowMs);
}

type Versions = { environmentId: number; properties: string; links: string; isVerified: number };

/** Aborts the batch with `guard_people` when an id is no longer in the remembered state. */
const guardPeople = query((value: ValueOf<Versions>) => {
  const [p, d] = [idProperties, distinctIds];
  const id = sql`i.value ->> 0`;
  const hasOtherProperties = sql`EXISTS (
    SELECT 1 FROM json_each(${value("properties")}) AS i
    LEFT JOIN ${p} ON ${p.environmentId} = ${value("environmentId")} AND ${p.distinctId} = ${id}
      AND ${p.isVerified} = ${value("isVerified")}
    WHERE coalesce(${p.version}, 0) <> i.value ->> 1 OR coalesce(octet_length(${p.properties}), 0) <> i.value ->> 2
  )`;
  const hasOtherClaims = sql`EXISTS (
    SELECT 1 FROM json_each(${value("links")}) AS i
    LEFT JOIN ${d} ON ${d.environmentId} = ${value("environmentId")} AND ${d.distinctId} = ${id}
    WHERE coalesce(${d.claimVersion}, 0) <> i.value ->> 1
      OR (${value("isVerified")} = 0 AND ${isUserBy(value("environmentId"), id, d.isUser)})
  )`;
  const holds = sql`NOT ${hasOtherProperties} AND NOT ${hasOtherClaims}`;
  return insertFrom(guards, { name: sql`'people'`, holds }, sql``);
});

/**
 * Returns a guard for events that change nothing about people, except the time when they were last seen. Null when this
 * isolate does not remember enough to know this.
 */
export function guardRemembered(ctx: TenantCtx, events: readonly PersonEvent[], nowMs: number): Statement | null {
  const memory = peopleMemoryOf(ctx.isolate);
  const properties = new Map<string, readonly [string, number, number]>();
  const links = new Map<string, number>();
  for (const event of events) {
    if (!needsStoredPeople(event)) continue;
    const remembered = memory.find(peopleMemoryKey(ctx, event.distinctId), nowMs);
    if (remembered === null) return null;
    if (changesProperties(event)) {
      const changes = event.changes();
      if (changes === null || remembered.properties?.changes.includes(changes) !== true) return null;
      properties.set(event.distinctId, [event.distinctId, remembered.properties.version, remembered.properties.bytes]);
    }
    if (event.link === null) continue;
    const text = linkText(event.link);
    const link = remembered.links.find((settled) => settled.link === text);
    if (link === undefined) return null;
    links.set(link.claimed, link.version);
  }
  // If an event makes the claimed id a user, a later link to this id is rejected.
  if (events.some((event) => (event.isIdentify || event.isSignedIn) && links.has(event.distinctId))) return null;
  return guardPeople({
    environmentId: ctx.environment.id,
    properties: JSON.stringify([...properties.values()]),
    links: JSON.stringify([...links]),
    isVerified: Number(ctx.caller.kind === "secret"),
  });
}

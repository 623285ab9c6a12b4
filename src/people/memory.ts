import { sql } from "drizzle-orm";
import { knownText } from "../db/known-tombstones.ts";
import { insertFrom, query, type ValueOf } from "../db/query.ts";
import { distinctIds, idProperties } from "../db/schema.ts";
import type { Statement } from "../db/sql.ts";
import { guards } from "../db/views.ts";
import { rememberPerObject } from "../lib/memory.ts";
import type { TenantCtx } from "../runtime.ts";
import { needsStoredPeople, type PersonEvent, sentLink } from "./claims.ts";
import type { SettledId } from "./plan-people.ts";
import { isUserBy } from "./read-people.ts";

const REMEMBERED_IDS_MAX = 1_000;
/** The most characters of sent texts that an isolate remembers. */
const REMEMBERED_CHARACTERS_MAX = 1_000_000;
const MS_MAX = 600_000;
/** A failed guard means that another isolate also writes for this id. For this time, reading first is faster than failing again. */
const READ_PEOPLE_FIRST_MS = 1_000;

interface RememberedId {
  readonly id: SettledId;
  readonly characters: number;
  readonly untilMs: number;
}

/** The ids in one isolate's memory, the latest last. Every key contains the environment's id. */
class PeopleMemory {
  readonly #ids = new Map<string, RememberedId>();
  readonly #readFirstUntilMs = new Map<string, number>();
  #characters = 0;

  find(key: string, nowMs: number): SettledId | null {
    const remembered = this.#ids.get(key);
    return remembered === undefined || remembered.untilMs <= nowMs ? null : remembered.id;
  }

  remember(key: string, latest: SettledId, nowMs: number): void {
    const id = merged(this.find(key, nowMs), latest);
    this.#forget(key);
    if ((this.#readFirstUntilMs.get(key) ?? 0) > nowMs) return;
    const texts = [
      id.distinctId,
      ...(id.properties?.changes ?? []),
      ...id.links.flatMap((one) => [one.link, one.claimed]),
    ];
    const characters = texts.reduce((sum, text) => sum + text.length, 0);
    this.#ids.set(key, { id, characters, untilMs: nowMs + MS_MAX });
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

/** How many of an id's latest changes are kept. */
const KEPT_OF_ID = 4;

/** Changes that are settled at the same versions stay settled. */
function merged(before: SettledId | null, latest: SettledId): SettledId {
  if (before === null) return latest;
  const links = new Map([...before.links, ...latest.links].map((one) => [one.link, one]));
  const { properties = null } = latest;
  const isSame = properties?.version === before.properties?.version && properties?.bytes === before.properties?.bytes;
  const changes = [...new Set([...(isSame ? (before.properties?.changes ?? []) : []), ...(properties?.changes ?? [])])];
  return {
    distinctId: latest.distinctId,
    properties: properties === null ? before.properties : { ...properties, changes: changes.slice(-KEPT_OF_ID) },
    links: [...links.values()].slice(-KEPT_OF_ID),
  };
}

const peopleMemoryOf = rememberPerObject(() => new PeopleMemory());

/** The key's kind is part of it because links have different rules for each, and the lifts because a lift invalidates memory (E4). */
const peopleMemoryKey = (ctx: TenantCtx, distinctId: string): string => {
  const { environment, caller } = ctx;
  return `${environment.database} ${environment.id} ${knownText(ctx)} ${caller.kind} ${distinctId}`;
};

export function rememberPeople(ctx: TenantCtx, ids: readonly SettledId[], nowMs: number): void {
  for (const id of ids) peopleMemoryOf(ctx.isolate).remember(peopleMemoryKey(ctx, id.distinctId), id, nowMs);
}

/** Makes the next write read the events' ids first. */
export function readPeopleFirst(ctx: TenantCtx, events: readonly PersonEvent[], nowMs: number): void {
  for (const { distinctId } of events) peopleMemoryOf(ctx.isolate).readFirst(peopleMemoryKey(ctx, distinctId), nowMs);
}

type Versions = { environmentId: number; properties: string; links: string; isVerified: number };

/** Aborts the batch with `guard_people` when an id is no longer as it was remembered. */
const guardPeople = query((value: ValueOf<Versions>) => {
  const [p, d] = [idProperties, distinctIds];
  const id = sql`i.value ->> 0`;
  const hasOtherProperties = sql`EXISTS (
    SELECT 1 FROM json_each(${value("properties")}) AS i
    LEFT JOIN ${p} ON ${p.environmentId} = ${value("environmentId")} AND ${p.distinctId} = ${id}
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
 * The guard under which these events change nothing about people except when they were last seen. Null when this isolate does not
 * remember enough.
 */
export function guardOfKnown(ctx: TenantCtx, events: readonly PersonEvent[], nowMs: number): Statement | null {
  const memory = peopleMemoryOf(ctx.isolate);
  const properties = new Map<string, readonly [string, number, number]>();
  const links = new Map<string, number>();
  for (const event of events) {
    if (!needsStoredPeople(event)) continue;
    const known = memory.find(peopleMemoryKey(ctx, event.distinctId), nowMs);
    if (known === null || event.changes === null) return null;
    if (event.changes !== "") {
      if (known.properties?.changes.includes(event.changes) !== true) return null;
      properties.set(event.distinctId, [event.distinctId, known.properties.version, known.properties.bytes]);
    }
    if (event.link === null) continue;
    const sent = sentLink(event.link);
    const link = known.links.find((one) => one.link === sent);
    if (link === undefined) return null;
    links.set(link.claimed, link.version);
  }
  // An event that makes the claimed id a user causes a later link to be refused.
  if (events.some((event) => (event.isIdentify || event.isSignedIn) && links.has(event.distinctId))) return null;
  return guardPeople({
    environmentId: ctx.environment.id,
    properties: JSON.stringify([...properties.values()]),
    links: JSON.stringify([...links]),
    isVerified: Number(ctx.caller.kind === "secret"),
  });
}

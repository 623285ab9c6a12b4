import type { JsonObject } from "../lib/json.ts";
import type { CapturedEvent } from "./event.ts";
import { changedProperties, propertiesFit } from "./person-properties.ts";
import { isSharedId } from "./shared-ids.ts";

export interface Person {
  readonly id: string;
  readonly properties: JsonObject;
  readonly isIdentified: boolean;
  readonly createdAtMs: number;
  readonly lastSeenAtMs: number;
  /** 0 for a person who is not stored yet. */
  readonly version: number;
}

/** What is stored of the people whom some events speak of. */
export interface Known {
  readonly persons: readonly Person[];
  readonly links: readonly { readonly distinctId: string; readonly personId: string | null }[];
}

/** `how` an id came to its person. */
export type Via = "capture" | "identify" | "alias" | "merge";

/** What events change about people. */
export interface IdentityChange {
  /** Born or changed; `version` is the one that was read. */
  readonly persons: readonly Person[];
  /** Stored people who end in another: all their ids go to `into`. */
  readonly merged: readonly { readonly from: Person; readonly into: string }[];
  readonly links: readonly { readonly distinctId: string; readonly personId: string; readonly via: Via }[];
  /** By the event's UUID: why it linked or set nothing. */
  readonly warnings: ReadonlyMap<string, string>;
}

/** What a plan needs of the world. */
export interface Birth {
  readonly nowMs: number;
  readonly newPersonId: () => string;
}

/**
 * Plays events, in their order, over what is known (P2, P3). Pure: nothing is stored here. Ids are joined by following
 * `mergedInto`, so that a request of thousands of aliases costs as many steps.
 */
export function planIdentity(events: readonly CapturedEvent[], known: Known, birth: Birth): IdentityChange {
  const stored = new Map(known.persons.map((person) => [person.id, person]));
  const persons = new Map(stored);
  const personOf = new Map<string, string>();
  for (const { distinctId, personId } of known.links) if (personId !== null) personOf.set(distinctId, personId);
  const mergedInto = new Map<string, string>();
  const links = new Map<string, { personId: string; via: Via }>();
  const warnings = new Map<string, string>();

  const survivorOf = (personId: string): string => {
    let id = personId;
    for (let next = mergedInto.get(id); next !== undefined; next = mergedInto.get(id)) id = next;
    if (id !== personId) mergedInto.set(personId, id);
    return id;
  };
  const find = (distinctId: string): Person | null => {
    const personId = personOf.get(distinctId);
    return personId === undefined ? null : (persons.get(survivorOf(personId)) ?? null);
  };
  /** Writing the person too makes the write fail if somebody else merged them away meanwhile. */
  const attach = (distinctId: string, person: Person, via: Via): void => {
    personOf.set(distinctId, person.id);
    links.set(distinctId, { personId: person.id, via });
    persons.set(person.id, { ...person });
  };
  const bear = (): Person => ({
    id: birth.newPersonId(),
    properties: {},
    isIdentified: false,
    createdAtMs: birth.nowMs,
    lastSeenAtMs: birth.nowMs,
    version: 0,
  });
  /** Why the two ids may not be joined; null when they are. */
  const join = (distinctId: string, otherId: string, via: Via): string | null => {
    if (distinctId === otherId) return null;
    if (isSharedId(distinctId) || isSharedId(otherId)) return "an id that many share is linked to none";
    const [person, other] = [find(distinctId), find(otherId)];
    if (person !== null && other !== null) return merge(person, other);
    const survivor = person ?? other ?? bear();
    if (person === null) attach(distinctId, survivor, via);
    if (other === null) attach(otherId, survivor, via);
    return null;
  };
  const merge = (person: Person, other: Person): string | null => {
    if (person.id === other.id) return null;
    if (other.isIdentified) return "the other id's person is identified already, so the two were not merged";
    const properties = { ...other.properties, ...person.properties };
    persons.set(person.id, {
      ...person,
      properties: propertiesFit(properties) ? properties : person.properties,
      createdAtMs: Math.min(person.createdAtMs, other.createdAtMs),
      lastSeenAtMs: Math.max(person.lastSeenAtMs, other.lastSeenAtMs),
    });
    persons.delete(other.id);
    mergedInto.set(other.id, person.id);
    return null;
  };

  for (const event of events) {
    if (event.isPersonless) continue;
    const refusal = event.link === null ? null : join(event.distinctId, event.link.otherId, event.link.via);
    if (refusal !== null) warnings.set(event.uuid, refusal);
    if (find(event.distinctId) === null) attach(event.distinctId, bear(), event.isIdentify ? "identify" : "capture");
    const person = find(event.distinctId);
    if (person === null) continue;
    const properties = changedProperties(person.properties, event);
    if (event.isIdentify && !person.isIdentified) persons.set(person.id, { ...person, isIdentified: true });
    if (properties === null) continue;
    if (properties === "too large") warnings.set(event.uuid, "the person's properties would grow too large");
    else persons.set(person.id, { ...(persons.get(person.id) ?? person), properties });
  }
  return {
    persons: [...persons.values()].filter((person) => person !== stored.get(person.id)),
    merged: [...stored.values()]
      .filter((person) => mergedInto.has(person.id))
      .map((from) => ({ from, into: survivorOf(from.id) })),
    links: [...links].map(([distinctId, { personId, via }]) => {
      const survivor = survivorOf(personId);
      return { distinctId, personId: survivor, via: survivor === personId ? via : "merge" };
    }),
    warnings,
  };
}

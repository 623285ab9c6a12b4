import type { JsonObject } from "../lib/json.ts";
import { mergedProperties } from "./person-properties.ts";
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

/** How an id came to its person. */
export type Via = "capture" | "identify" | "alias" | "merge";

/** What a person's birth needs of the world. */
export interface Birth {
  readonly nowMs: number;
  readonly newPersonId: () => string;
}

/** What changed about people since they were read. */
export interface PeopleChange {
  /** Born or changed; `version` is the one that was read. */
  readonly persons: readonly Person[];
  /** Stored people who ended in another: all their ids go to `into`. */
  readonly merged: readonly { readonly from: Person; readonly into: string }[];
  readonly links: readonly { readonly distinctId: string; readonly personId: string; readonly via: Via }[];
}

/** People and their ids, as they are read and then change while events are played over them. */
export class PersonGraph {
  readonly #birth: Birth;
  readonly #stored: ReadonlyMap<string, Person>;
  readonly #persons: Map<string, Person>;
  readonly #personOf = new Map<string, string>();
  /** Followed to whoever is left, so that a request of thousands of aliases costs as many steps. */
  readonly #mergedInto = new Map<string, string>();
  readonly #links = new Map<string, { readonly personId: string; readonly via: Via }>();

  constructor(known: Known, birth: Birth) {
    this.#birth = birth;
    this.#stored = new Map(known.persons.map((person) => [person.id, person]));
    this.#persons = new Map(this.#stored);
    for (const { distinctId, personId } of known.links) {
      if (personId !== null) this.#personOf.set(distinctId, personId);
    }
  }

  /** Whose the id is; null where it is nobody's. */
  find(distinctId: string): Person | null {
    const personId = this.#personOf.get(distinctId);
    return personId === undefined ? null : (this.#persons.get(this.#survivorOf(personId)) ?? null);
  }

  /** Whose the id is; a person of its own from now on where it was nobody's. */
  findOrBear(distinctId: string, via: Via): Person {
    return this.find(distinctId) ?? this.#attach(distinctId, this.#bear(), via);
  }

  update(person: Person): void {
    this.#persons.set(person.id, person);
  }

  /** Makes two ids one person's (P2). Answers why it did not; null when it did, or when they were already. */
  join(distinctId: string, otherId: string, via: Via): string | null {
    if (distinctId === otherId) return null;
    if (isSharedId(distinctId) || isSharedId(otherId)) return "an id that many share is linked to none";
    const [person, other] = [this.find(distinctId), this.find(otherId)];
    if (person !== null && other !== null) return this.#merge(person, other);
    const survivor = person ?? other ?? this.#bear();
    if (person === null) this.#attach(distinctId, survivor, via);
    if (other === null) this.#attach(otherId, survivor, via);
    return null;
  }

  change(): PeopleChange {
    return {
      persons: [...this.#persons.values()].filter((person) => person !== this.#stored.get(person.id)),
      merged: [...this.#stored.values()]
        .filter((person) => this.#mergedInto.has(person.id))
        .map((from) => ({ from, into: this.#survivorOf(from.id) })),
      links: [...this.#links].map(([distinctId, { personId, via }]) => {
        const survivor = this.#survivorOf(personId);
        return { distinctId, personId: survivor, via: survivor === personId ? via : "merge" };
      }),
    };
  }

  #survivorOf(personId: string): string {
    let id = personId;
    for (let next = this.#mergedInto.get(id); next !== undefined; next = this.#mergedInto.get(id)) id = next;
    if (id !== personId) this.#mergedInto.set(personId, id);
    return id;
  }

  #bear(): Person {
    return {
      id: this.#birth.newPersonId(),
      properties: {},
      isIdentified: false,
      createdAtMs: this.#birth.nowMs,
      lastSeenAtMs: this.#birth.nowMs,
      version: 0,
    };
  }

  /** Counts as a change of the person: the write then fails if somebody else merged them away meanwhile. */
  #attach(distinctId: string, person: Person, via: Via): Person {
    const attached = { ...person };
    this.#personOf.set(distinctId, person.id);
    this.#links.set(distinctId, { personId: person.id, via });
    this.#persons.set(person.id, attached);
    return attached;
  }

  #merge(person: Person, other: Person): string | null {
    if (person.id === other.id) return null;
    if (other.isIdentified) return "the other id's person is identified already, so the two were not merged";
    this.#persons.set(person.id, {
      ...person,
      properties: mergedProperties(person.properties, other.properties),
      createdAtMs: Math.min(person.createdAtMs, other.createdAtMs),
      lastSeenAtMs: Math.max(person.lastSeenAtMs, other.lastSeenAtMs),
    });
    this.#persons.delete(other.id);
    this.#mergedInto.set(other.id, person.id);
    return null;
  }
}

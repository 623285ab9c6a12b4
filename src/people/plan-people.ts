import {
  type ClaimChange,
  type ClaimRecord,
  Claims,
  findLinkRejection,
  isDeviceForm,
  linkText,
  needsStoredPeople,
  type PersonEvent,
} from "./claims.ts";
import { changesProperties, ID_PROPERTIES_BYTES_MAX, ID_PROPERTIES_NAMES_MAX, IdProperties } from "./id-properties.ts";

export interface StoredProperties {
  readonly distinctId: string;
  /** Whether secret keys set them. */
  readonly isVerified: boolean;
  /** JSON text of an object. */
  readonly properties: string;
  readonly version: number;
}

/** The stored data about the ids of some events. */
export interface StoredPeople {
  readonly claims: readonly ClaimRecord[];
  readonly properties: readonly StoredProperties[];
}

export const noStoredPeople: StoredPeople = { claims: [], properties: [] };

/** Returns the stored data as if these ids had never been seen. */
export function withoutPeople({ claims, properties }: StoredPeople, ids: ReadonlyMap<string, unknown>): StoredPeople {
  const otherClaims = claims.filter(({ distinctId }) => !ids.has(distinctId));
  return {
    claims: otherClaims.map((record) => (ids.has(record.claim?.by ?? "") ? { ...record, claim: null } : record)),
    properties: properties.filter(({ distinctId }) => !ids.has(distinctId)),
  };
}

/** An update of an id's record, which is created if there is none. */
export interface IdUpdate {
  readonly distinctId: string;
  readonly isDeviceForm: boolean;
  readonly isSender: boolean;
  readonly isIdentified: boolean;
  readonly isUser: boolean;
  /** How many claims it makes with a publishable or relay key, and how many more link nothing because of the limits (L1). */
  readonly claimsMade: number;
  readonly claimsOverLimit: number;
  /** How many bytes of its properties are written. */
  readonly writtenPropertiesBytes: number;
}

/** The changes to people by some events. */
export interface PeopleChange {
  readonly ids: readonly IdUpdate[];
  readonly changes: readonly ClaimChange[];
  /** How many claims were rejected because of what is stored, such as that the claimed id is a user. */
  readonly rejectedClaims: number;
  /** Whether a secret key's alias made a device's id claim an id that is none (W16). */
  readonly hasUncertainAlias: boolean;
  /** The new properties. `version` is the one that was read; 0 if nothing was stored. */
  readonly properties: readonly StoredProperties[];
  /** Why an event linked or set nothing, by the result of `eventKey`. */
  readonly warnings: ReadonlyMap<string, string>;
  /** The changes that are made now, so that the same events have no effect. */
  readonly settled: readonly SettledId[];
}

const TOO_MANY_PROPERTIES = `the id's properties have at most ${ID_PROPERTIES_NAMES_MAX} names and ${ID_PROPERTIES_BYTES_MAX} bytes: the properties beyond these limits were not set`;

/** Returns the text that identifies an event among those of its request: an event is one by UUID and id (P4). */
export const eventKey = ({ uuid, distinctId }: Pick<PersonEvent, "uuid" | "distinctId">): string =>
  `${uuid} ${distinctId}`;

/**
 * Returns the warnings for a publishable key, by `eventKey`. They depend only on the events, so that they reveal no stored data
 * (P2, L1, E4).
 */
export function warningsFromEvents(events: readonly PersonEvent[]): ReadonlyMap<string, string> {
  const warnings = new Map<string, string>();
  for (const event of events) {
    if (event.isPersonless) continue;
    const rejection = event.link === null ? null : findLinkRejection(event.distinctId, event.link);
    if (rejection !== null) warnings.set(eventKey(event), rejection);
    if (changesProperties(event) && !new IdProperties(null).apply(event))
      warnings.set(eventKey(event), TOO_MANY_PROPERTIES);
  }
  return warnings;
}

/**
 * Plans the changes that events, in order, make to the stored data (P2, P3). `isVerified`: whether they were sent with a
 * secret key. Pure: it stores nothing.
 */
export function planPeople(events: readonly PersonEvent[], stored: StoredPeople, isVerified: boolean): PeopleChange {
  const claims = new Claims(stored.claims, isVerified);
  const rooms = new PropertyRooms(stored.properties, isVerified);
  const ids = new Map<string, IdUpdate>();
  const warnings = new Map<string, string>();
  let rejectedClaims = 0;
  const update = (distinctId: string, isSender: boolean, isIdentified: boolean) => {
    const before = ids.get(distinctId);
    ids.set(distinctId, {
      distinctId,
      isDeviceForm: before?.isDeviceForm ?? isDeviceForm(distinctId),
      isSender: isSender || before?.isSender === true,
      isIdentified: isIdentified || before?.isIdentified === true,
      isUser: false,
      claimsMade: 0,
      claimsOverLimit: 0,
      writtenPropertiesBytes: 0,
    });
  };
  for (const event of events) {
    const { distinctId, link, isIdentify, isPersonless } = event;
    update(distinctId, !isPersonless, !isPersonless && isIdentify);
    const rejection = claims.apply(event);
    if (isPersonless) continue;
    if (rejection !== null) warnings.set(eventKey(event), rejection);
    if (rejection !== null && link !== null && findLinkRejection(distinctId, link) === null) rejectedClaims++;
    if (!changesProperties(event)) continue;
    if (!rooms.apply(event)) warnings.set(eventKey(event), TOO_MANY_PROPERTIES);
  }
  const { changes, users, claimsMade, claimsOverLimit } = claims;
  const otherIds = [
    ...users,
    ...claimsOverLimit.keys(),
    ...changes.flatMap(({ distinctId, claim }) => [distinctId, claim.by]),
  ];
  for (const id of otherIds) update(id, false, false);
  return {
    ids: Array.from(ids.values(), (id) => ({
      ...id,
      isUser: users.has(id.distinctId),
      claimsMade: claimsMade.get(id.distinctId) ?? 0,
      claimsOverLimit: claimsOverLimit.get(id.distinctId) ?? 0,
      writtenPropertiesBytes: rooms.writtenBytesOf(id.distinctId),
    })),
    changes,
    rejectedClaims,
    hasUncertainAlias: claims.hasUncertainAlias,
    properties: rooms.changed(),
    warnings,
    settled: settledIds(
      events.filter((event) => needsStoredPeople(event) && !warnings.has(eventKey(event))),
      claims,
      rooms,
    ),
  };
}

/** One id's properties of one kind, and the version that was read; 0 if nothing was stored. */
interface Room {
  readonly distinctId: string;
  readonly isVerified: boolean;
  readonly idProperties: IdProperties;
  readonly version: number;
}

/** The properties of ids, to which one event after another is applied: what secret keys set is apart from what other keys set. */
class PropertyRooms {
  readonly #isVerified: boolean;
  readonly #stored: ReadonlyMap<string, StoredProperties>;
  readonly #rooms = new Map<string, Room>();

  /** `isVerified`: whether the events were sent with a secret key. */
  constructor(stored: readonly StoredProperties[], isVerified: boolean) {
    this.#isVerified = isVerified;
    this.#stored = new Map(stored.map((entry) => [roomKey(entry.distinctId, entry.isVerified), entry]));
  }

  /** Applies an event. Returns false when a property was not set, because the limits of its kind would be exceeded. */
  apply(event: PersonEvent): boolean {
    const { distinctId, unset } = event;
    if (this.#isVerified && unset !== null)
      this.#open(distinctId, false).idProperties.apply({ set: null, setOnce: null, unset });
    return this.#open(distinctId, this.#isVerified).idProperties.apply(event);
  }

  /** The id's properties of the caller's kind. Null when no event changed them. */
  find(distinctId: string): Room | null {
    return this.#rooms.get(roomKey(distinctId, this.#isVerified)) ?? null;
  }

  changed(): StoredProperties[] {
    const changed = [...this.#rooms.values()].filter(({ idProperties }) => idProperties.isChanged);
    return changed.map(({ idProperties, ...room }) => ({ ...room, properties: idProperties.text }));
  }

  writtenBytesOf(distinctId: string): number {
    const rooms = [true, false].flatMap((isVerified) => this.#rooms.get(roomKey(distinctId, isVerified)) ?? []);
    return rooms.reduce((sum, { idProperties }) => sum + (idProperties.isChanged ? idProperties.storedBytes : 0), 0);
  }

  #open(distinctId: string, isVerified: boolean): Room {
    const key = roomKey(distinctId, isVerified);
    const existing = this.#rooms.get(key);
    if (existing !== undefined) return existing;
    const { properties = null, version = 0 } = this.#stored.get(key) ?? {};
    const room = { distinctId, isVerified, idProperties: new IdProperties(properties), version };
    this.#rooms.set(key, room);
    return room;
  }
}

const roomKey = (distinctId: string, isVerified: boolean): string => `${Number(isVerified)} ${distinctId}`;

/** The settled changes of an id. While the versions are the same, events with these changes have no effect and no warning. */
export interface SettledId {
  readonly distinctId: string;
  readonly properties: { readonly version: number; readonly bytes: number; readonly changes: readonly string[] } | null;
  readonly links: readonly SettledLink[];
}

export interface SettledLink {
  /** The result of `linkText`. */
  readonly link: string;
  readonly claimed: string;
  readonly version: number;
}

/** Requests with more events are not remembered, because clients that send the same events again send few. */
const SETTLED_EVENTS_MAX = 100;

/** Returns the settled changes of events that caused no warning. */
function settledIds(events: readonly PersonEvent[], claims: Claims, rooms: PropertyRooms): SettledId[] {
  if (events.length > SETTLED_EVENTS_MAX) return [];
  const byId = Map.groupBy(events, ({ distinctId }) => distinctId);
  return Array.from(byId, ([distinctId, ofId]) => {
    const links = ofId.flatMap(({ link }) => {
      const version = link === null ? null : claims.settledVersion(distinctId, link);
      return link === null || version === null ? [] : [{ link: linkText(link), claimed: link.otherId, version }];
    });
    const room = rooms.find(distinctId);
    if (room === null) return { distinctId, properties: null, links };
    const { idProperties, isVerified } = room;
    // Long changes are not remembered, and no `$unset` by a secret key, which also changes what other keys set.
    const settled = ofId.flatMap((event) => {
      const isSettled =
        changesProperties(event) && !(isVerified && event.unset !== null) && idProperties.isSettled(event);
      return (isSettled ? event.changes() : null) ?? [];
    });
    const version = room.version + Number(idProperties.isChanged);
    const properties = { version, bytes: idProperties.storedBytes, changes: [...new Set(settled)] };
    return { distinctId, properties, links };
  });
}

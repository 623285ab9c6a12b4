import {
  type ClaimChange,
  type ClaimRecord,
  Claims,
  flawOfLink,
  isDeviceForm,
  linkText,
  needsStoredPeople,
  type PersonEvent,
} from "./claims.ts";
import { changesProperties, ID_PROPERTIES_BYTES_MAX, ID_PROPERTIES_NAMES_MAX, IdProperties } from "./id-properties.ts";

export interface StoredProperties {
  readonly distinctId: string;
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
  /** How many claims it makes with a publishable key. */
  readonly claimsMade: number;
  /** By how many bytes its stored properties grow. */
  readonly addedPropertiesBytes: number;
}

/** The changes to people by some events. */
export interface PeopleChange {
  readonly ids: readonly IdUpdate[];
  readonly changes: readonly ClaimChange[];
  /** How many claims were refused because of what is stored, such as that the claimed id is a user. */
  readonly refusedClaims: number;
  /** The new properties. `version` is the one that was read; 0 if nothing was stored. */
  readonly properties: readonly StoredProperties[];
  /** Why an event linked or set nothing, by the event's UUID. */
  readonly warnings: ReadonlyMap<string, string>;
  /** The changes that are made now, so that the same events have no effect. */
  readonly settled: readonly SettledId[];
}

const TOO_MANY_PROPERTIES = `the id's properties have at most ${ID_PROPERTIES_NAMES_MAX} names and ${ID_PROPERTIES_BYTES_MAX} bytes: the properties beyond these limits were not set`;

/**
 * Returns the warnings for a publishable key, by UUID. They depend only on the events, so that they reveal no stored data
 * (P2, L1, E4).
 */
export function warningsFromEvents(events: readonly PersonEvent[]): ReadonlyMap<string, string> {
  const warnings = new Map<string, string>();
  for (const event of events) {
    if (event.isPersonless) continue;
    const flaw = event.link === null ? null : flawOfLink(event.distinctId, event.link);
    if (flaw !== null) warnings.set(event.uuid, flaw);
    // Changes that are short enough to remember never exceed the limits of an id.
    if (event.changes === null && !new IdProperties(null).apply(event)) warnings.set(event.uuid, TOO_MANY_PROPERTIES);
  }
  return warnings;
}

/**
 * Plans the changes that events, in order, make to the stored data (P2, P3). `isVerified`: whether they were sent with a
 * secret key. Pure: it stores nothing.
 */
export function planPeople(events: readonly PersonEvent[], stored: StoredPeople, isVerified: boolean): PeopleChange {
  const claims = new Claims(stored.claims, isVerified);
  const storedById = new Map(stored.properties.map((entry) => [entry.distinctId, entry]));
  const properties = new Map<string, IdProperties>();
  const ids = new Map<string, IdUpdate>();
  const warnings = new Map<string, string>();
  let refusedClaims = 0;
  const update = (distinctId: string, isSender: boolean, isIdentified: boolean) => {
    const before = ids.get(distinctId);
    ids.set(distinctId, {
      distinctId,
      isDeviceForm: before?.isDeviceForm ?? isDeviceForm(distinctId),
      isSender: isSender || before?.isSender === true,
      isIdentified: isIdentified || before?.isIdentified === true,
      isUser: false,
      claimsMade: 0,
      addedPropertiesBytes: 0,
    });
  };
  for (const event of events) {
    const { uuid, distinctId, link, isIdentify, isPersonless } = event;
    update(distinctId, !isPersonless, !isPersonless && isIdentify);
    const refusal = claims.apply(event);
    if (isPersonless) continue;
    if (refusal !== null) warnings.set(uuid, refusal);
    if (refusal !== null && link !== null && flawOfLink(distinctId, link) === null) refusedClaims++;
    if (!changesProperties(event)) continue;
    const idProperties = properties.get(distinctId) ?? new IdProperties(storedById.get(distinctId)?.properties ?? null);
    properties.set(distinctId, idProperties);
    if (!idProperties.apply(event)) warnings.set(uuid, TOO_MANY_PROPERTIES);
  }
  const { changes, users, claimsMade } = claims;
  const otherIds = [...users, ...changes.flatMap(({ distinctId, claim }) => [distinctId, claim.by])];
  for (const id of otherIds) update(id, false, false);
  return {
    ids: Array.from(ids.values(), (id) => ({
      ...id,
      isUser: users.has(id.distinctId),
      claimsMade: claimsMade.get(id.distinctId) ?? 0,
      addedPropertiesBytes: properties.get(id.distinctId)?.addedBytes ?? 0,
    })),
    changes,
    refusedClaims,
    properties: Array.from(properties).flatMap(([distinctId, idProperties]) =>
      idProperties.isChanged
        ? [{ distinctId, properties: idProperties.text, version: storedById.get(distinctId)?.version ?? 0 }]
        : [],
    ),
    warnings,
    settled: settledIds(
      events.filter((event) => needsStoredPeople(event) && !warnings.has(event.uuid)),
      claims,
      (distinctId) => {
        const idProperties = properties.get(distinctId);
        const version = storedById.get(distinctId)?.version ?? 0;
        return idProperties === undefined ? null : { idProperties, version: version + Number(idProperties.isChanged) };
      },
    ),
  };
}

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
function settledIds(
  events: readonly PersonEvent[],
  claims: Claims,
  propertiesOf: (distinctId: string) => { readonly idProperties: IdProperties; readonly version: number } | null,
): SettledId[] {
  if (events.length > SETTLED_EVENTS_MAX) return [];
  const byId = Map.groupBy(events, ({ distinctId }) => distinctId);
  return Array.from(byId, ([distinctId, ofId]) => {
    const links = ofId.flatMap(({ link }) => {
      const version = link === null ? null : claims.settledVersion(distinctId, link);
      return link === null || version === null ? [] : [{ link: linkText(link), claimed: link.otherId, version }];
    });
    const idState = propertiesOf(distinctId);
    // Null and empty changes are not remembered.
    const settled = ofId.flatMap((event) =>
      event.changes && idState?.idProperties.isSettled(event) ? event.changes : [],
    );
    const changes = [...new Set(settled)];
    const properties =
      idState === null ? null : { version: idState.version, bytes: idState.idProperties.storedBytes, changes };
    return { distinctId, properties, links };
  });
}

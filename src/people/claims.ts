import { changesProperties, type PropertyChanges } from "./id-properties.ts";

/** The kind of event by which an id claims another id. */
export type Via = "identify" | "alias";

/** A link from an event's own id to another id. */
export interface Link {
  readonly otherId: string;
  readonly via: Via;
}

/** The parts of an event that concern people. */
export interface PersonEvent extends PropertyChanges {
  readonly uuid: string;
  readonly distinctId: string;
  readonly isPersonless: boolean;
  readonly isIdentify: boolean;
  /** Whether the SDK sent `$is_identified: true`, because its user is identified. */
  readonly isSignedIn: boolean;
  readonly link: Link | null;
}

/**
 * Returns whether the event makes its own id a user (P2). A personless event does so only if it is an `$identify` or, with a secret
 * key, a `$set`. `isVerified`: whether it was sent with a secret key.
 */
export function makesUser(event: PersonEvent, isVerified: boolean): boolean {
  if (event.isIdentify) return true;
  return event.isPersonless ? isVerified && changesProperties(event) : isVerified || event.isSignedIn;
}

/** Returns whether the changes that an event makes depend on the stored data about people. */
export function needsStoredPeople(event: PersonEvent): boolean {
  return !event.isPersonless && (event.link !== null || changesProperties(event));
}

/** Five groups of hex digits: a UUID, or an id from an older version of posthog-js. */
const FIVE_GROUPS = /^[0-9a-f]+(-[0-9a-f]+){4}$/i;
const DIGITS_MIN = 32;

/** Returns whether an id has the form of the device ids of SDKs (P2). A publishable key can claim only such an id. */
export function isDeviceForm(distinctId: string): boolean {
  return FIVE_GROUPS.test(distinctId) && distinctId.length - 4 >= DIGITS_MIN;
}

/**
 * Ids, in lower case, that PostHog's clients send for unknown users: PostHog's own list, and the ids of its cookieless mode.
 */
const SHARED_IDS = new Set([
  "",
  "$posthog_cookieless",
  "0",
  "00000000-0000-0000-0000-000000000000",
  "[object object]",
  "anonymous",
  "anonymous-user",
  "backend",
  "distinct_id",
  "distinctid",
  "email",
  "false",
  "guest",
  "id",
  "nan",
  "none",
  "not_authenticated",
  "null",
  "system",
  "true",
  "undefined",
  "user",
]);

/**
 * Returns whether many devices share this id, so that it must never link two people (P2). The comparison ignores case, outer white
 * space and quotes.
 */
export function isSharedId(distinctId: string): boolean {
  const plain = distinctId.trim().toLowerCase();
  if (SHARED_IDS.has(plain)) return true;
  const quote = plain.charAt(0);
  if (plain.length < 2 || (quote !== '"' && quote !== "'") || !plain.endsWith(quote)) return false;
  return SHARED_IDS.has(plain.slice(1, -1).trim());
}

/** The claim on an id: the id that claims it, and whether it was sent with a secret key. */
export interface Claim {
  readonly by: string;
  readonly isVerified: boolean;
}

/** The stored data about an id on which claims depend. */
export interface ClaimRecord {
  readonly distinctId: string;
  readonly claim: Claim | null;
  readonly version: number;
  readonly isUser: boolean;
  /** Whether it is a user by a mark that no publishable or relay key can set. */
  readonly isVerifiedUser: boolean;
  /** How many claims it made with publishable and relay keys, in all and today. */
  readonly claimsMade: number;
  readonly claimsToday: number;
}

/** A change of one id's claim. */
export interface ClaimChange {
  readonly distinctId: string;
  readonly claim: Claim & { readonly via: Via };
  /** The version that was read; 0 if nothing is stored. */
  readonly version: number;
}

/** The most claims that an id can make with publishable and relay keys, in all and on a UTC day (L1). */
export const CLAIMS_MADE_MAX = 1_000;
export const CLAIMS_A_DAY_MAX = 100;

const SHARED = "an id that many clients share is not linked";
const NO_DEVICE = "the other id does not have the form of a device id, so only a secret key can link it";

/** Returns a link as a text, which identifies the link among those of an id. */
export const linkText = ({ otherId, via }: Link): string => `${via} ${otherId}`;

/** Returns why a publishable key's link has no effect, as far as the event alone shows (P2). */
export function findLinkRejection(distinctId: string, { otherId, via }: Link): string | null {
  if (distinctId === otherId) return null;
  if (isSharedId(distinctId) || isSharedId(otherId)) return SHARED;
  // An alias may be reversed because of stored data. Then the event's own id is the device.
  const mayBeDevice = isDeviceForm(otherId) || (via === "alias" && isDeviceForm(distinctId));
  return mayBeDevice ? null : NO_DEVICE;
}

/** The stored claims on the ids of a request, to which one event after another is applied (P2). Pure. */
export class Claims {
  readonly #isVerified: boolean;
  readonly #records: ReadonlyMap<string, ClaimRecord>;
  readonly #users = new Set<string>();
  readonly #changed = new Map<string, ClaimChange["claim"]>();
  readonly #claimsMade = new Map<string, number>();
  readonly #claimsOverLimit = new Map<string, number>();
  #hasUncertainAlias = false;

  /** `isVerified`: whether the events were sent with a secret key. */
  constructor(records: readonly ClaimRecord[], isVerified: boolean) {
    this.#isVerified = isVerified;
    this.#records = new Map(records.map((record) => [record.distinctId, record]));
  }

  /**
   * Applies an event. Returns why its link has no effect. Returns null when it has no link, or when its ids are linked now. A
   * personless event links nothing.
   */
  apply(event: PersonEvent): string | null {
    const { distinctId, link, isPersonless } = event;
    // The direction of an alias depends on the state before this event.
    const isReversed = link?.via === "alias" && this.#isReversed(distinctId, link.otherId);
    const isUncertain = link?.via === "alias" && !isReversed && this.#isUncertainAlias(distinctId, link.otherId);
    if (makesUser(event, this.#isVerified) && !isSharedId(distinctId)) this.#users.add(distinctId);
    if (isPersonless || link === null || link.otherId === distinctId) return null;
    if (isSharedId(distinctId) || isSharedId(link.otherId)) return SHARED;
    if (this.#isVerified) this.#users.add(link.otherId);
    this.#hasUncertainAlias ||= isUncertain;
    const [claimer, claimed] = isReversed ? [link.otherId, distinctId] : [distinctId, link.otherId];
    const rejection = this.#isVerified ? this.#rejectVerified(claimer, claimed) : this.#reject(claimer, claimed);
    if (rejection !== null) return rejection;
    const existing = this.#claimOn(claimed);
    if (existing?.by === claimer && (existing.isVerified || !this.#isVerified)) return null;
    this.#changed.set(claimed, { by: claimer, via: link.via, isVerified: this.#isVerified });
    if (!this.#isVerified) this.#claimsMade.set(claimer, (this.#claimsMade.get(claimer) ?? 0) + 1);
    return null;
  }

  /**
   * Returns the version of the claim for a link, if the same link would change nothing. Returns null when the link has no
   * effect, and for an alias that the next time could be reversed.
   */
  settledVersion(distinctId: string, { otherId, via }: Link): number | null {
    if (via === "alias" && isDeviceForm(distinctId)) return null;
    const claim = this.#claimOn(otherId);
    if (claim?.by !== distinctId || claim.isVerified !== this.#isVerified) return null;
    return this.#versionOf(otherId) + Number(this.#changed.has(otherId));
  }

  /** The ids that the events identified as users. */
  get users(): ReadonlySet<string> {
    return this.#users;
  }

  /** Whether a secret key's alias made a device's id claim an id that is none, which is usually meant the other way (W16). */
  get hasUncertainAlias(): boolean {
    return this.#hasUncertainAlias;
  }

  get changes(): ClaimChange[] {
    return Array.from(this.#changed, ([distinctId, claim]) => ({
      distinctId,
      claim,
      version: this.#versionOf(distinctId),
    }));
  }

  /** The number of claims with publishable and relay keys, by id. */
  get claimsMade(): ReadonlyMap<string, number> {
    return this.#claimsMade;
  }

  /** The number of claims that linked nothing because of the limits, by the id that made them. */
  get claimsOverLimit(): ReadonlyMap<string, number> {
    return this.#claimsOverLimit;
  }

  #versionOf(distinctId: string): number {
    return this.#records.get(distinctId)?.version ?? 0;
  }

  #claimOn(distinctId: string): Claim | null {
    return this.#changed.get(distinctId) ?? this.#records.get(distinctId)?.claim ?? null;
  }

  /** Whether the id has the form of a device id and is not a user. */
  #isDevice(distinctId: string): boolean {
    return isDeviceForm(distinctId) && !this.#isUser(distinctId);
  }

  #isUser(distinctId: string): boolean {
    return this.#users.has(distinctId) || this.#records.get(distinctId)?.isUser === true;
  }

  /** Whether marks that no publishable or relay key can set make the id a user. */
  #isVerifiedUser(distinctId: string): boolean {
    const isMarkedNow = this.#isVerified && this.#users.has(distinctId);
    return isMarkedNow || this.#records.get(distinctId)?.isVerifiedUser === true;
  }

  /** Whether the other id of an alias claims the event's own id. Unverified events never reverse a verified alias. */
  #isReversed(distinctId: string, otherId: string): boolean {
    if (!this.#isVerified) return this.#isDevice(distinctId) && !this.#isDevice(otherId);
    return isDeviceForm(distinctId) && !this.#isVerifiedUser(distinctId) && this.#isVerifiedUser(otherId);
  }

  #isUncertainAlias(distinctId: string, otherId: string): boolean {
    if (!this.#isVerified || !isDeviceForm(distinctId) || isDeviceForm(otherId)) return false;
    return !this.#isVerifiedUser(distinctId) && !this.#isVerifiedUser(otherId);
  }

  /**
   * Returns why a publishable key's claim is rejected: it would not count, or another claim exists. Null when it is accepted.
   */
  #reject(claimer: string, claimed: string): string | null {
    if (!isDeviceForm(claimed)) return NO_DEVICE;
    if (this.#isUser(claimed)) return "the other id is a user, so only a secret key can link it";
    if (this.#isDevice(claimer)) return "neither id is known to be a user, so only a secret key can link them";
    const existing = this.#claimOn(claimed);
    if (existing !== null) return existing.by === claimer ? null : "the other id is already linked to another id";
    if (!this.#mayClaim(claimer)) {
      this.#claimsOverLimit.set(claimer, (this.#claimsOverLimit.get(claimer) ?? 0) + 1);
      return "this id has made too many links, so only a secret key can make more";
    }
    return null;
  }

  #mayClaim(claimer: string): boolean {
    const { claimsMade = 0, claimsToday = 0 } = this.#records.get(claimer) ?? {};
    const now = this.#claimsMade.get(claimer) ?? 0;
    return claimsMade + now < CLAIMS_MADE_MAX && claimsToday + now < CLAIMS_A_DAY_MAX;
  }

  /**
   * Returns why a secret key's claim is rejected: another such claim exists, or it would close a cycle. Null when it is
   * accepted.
   */
  #rejectVerified(claimer: string, claimed: string): string | null {
    const existing = this.#claimOn(claimed);
    if (existing?.isVerified === true) {
      return existing.by === claimer ? null : "the other id is already linked to another id by a secret key";
    }
    for (let claim = this.#claimOn(claimer); claim?.isVerified === true; claim = this.#claimOn(claim.by)) {
      if (claim.by === claimed) return "this id is already linked to the other id by a secret key";
    }
    return null;
  }
}

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
  /** Sent by an SDK that knows its user: `$is_identified: true`. */
  readonly isSignedIn: boolean;
  readonly link: Link | null;
}

/**
 * Whether the event makes its own id a user (P2). A personless event does so only as an `$identify` or, with a secret key, as a
 * `$set`. `isVerified`: whether it was sent with a secret key.
 */
export function makesUser(event: PersonEvent, isVerified: boolean): boolean {
  if (event.isIdentify) return true;
  return event.isPersonless ? isVerified && changesProperties(event) : isVerified || event.isSignedIn;
}

/** Whether the event's changes depend on what is stored about people. */
export function needsStoredPeople(event: PersonEvent): boolean {
  return !event.isPersonless && (event.link !== null || changesProperties(event));
}

/** Five groups of hex digits: a UUID, or an id from an older version of posthog-js. */
const FIVE_GROUPS = /^[0-9a-f]+(-[0-9a-f]+){4}$/i;
const DIGITS_MIN = 32;

/** Whether an id has the form of the device ids of SDKs (P2). A publishable key can claim only such an id. */
export function isDeviceForm(distinctId: string): boolean {
  return FIVE_GROUPS.test(distinctId) && distinctId.length - 4 >= DIGITS_MIN;
}

/** Ids, in lower case, that PostHog's clients send for unknown users: PostHog's own list, and those of its cookieless mode. */
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
 * Whether many devices share this id, so that it must never link two people (P2). It is compared without case, outer white
 * space and quotes.
 */
export function isSharedId(distinctId: string): boolean {
  const bare = distinctId.trim().toLowerCase();
  if (SHARED_IDS.has(bare)) return true;
  const quote = bare.charAt(0);
  if (bare.length < 2 || (quote !== '"' && quote !== "'") || !bare.endsWith(quote)) return false;
  return SHARED_IDS.has(bare.slice(1, -1).trim());
}

/** The claim on an id: the id that claims it, and whether it was sent with a secret key. */
export interface Claim {
  readonly by: string;
  readonly isVerified: boolean;
}

/** The stored facts about an id that claims depend on. */
export interface ClaimRecord {
  readonly distinctId: string;
  readonly claim: Claim | null;
  readonly version: number;
  readonly isUser: boolean;
  /** How many claims it made with publishable keys. */
  readonly claimsMade: number;
}

/** A change of one id's claim. */
export interface ClaimChange {
  readonly distinctId: string;
  readonly claim: Claim & { readonly via: Via };
  /** The version that was read; 0 if nothing is stored. */
  readonly version: number;
}

/** The most claims that an id can make with publishable keys (L1). */
const CLAIMS_MADE_MAX = 1_000;

const SHARED = "an id that many clients share is not linked";
const NO_DEVICE = "the other id does not have the form of a device id, so only a secret key can link it";

/** A link as it was sent. */
export const sentLink = ({ otherId, via }: Link): string => `${via} ${otherId}`;

/** Why a publishable key's link has no effect, judged by the event alone (P2). */
export function flawOfLink(distinctId: string, { otherId, via }: Link): string | null {
  if (distinctId === otherId) return null;
  if (isSharedId(distinctId) || isSharedId(otherId)) return SHARED;
  // Stored data may reverse an alias, so that its own id is the device.
  const mayBeDevice = isDeviceForm(otherId) || (via === "alias" && isDeviceForm(distinctId));
  return mayBeDevice ? null : NO_DEVICE;
}

/** The stored claims that a request concerns, changed by one event after another (P2). Pure. */
export class Claims {
  readonly #isVerified: boolean;
  readonly #records: ReadonlyMap<string, ClaimRecord>;
  readonly #users = new Set<string>();
  readonly #changed = new Map<string, ClaimChange["claim"]>();
  readonly #made = new Map<string, number>();

  /** `isVerified`: whether the events were sent with a secret key. */
  constructor(records: readonly ClaimRecord[], isVerified: boolean) {
    this.#isVerified = isVerified;
    this.#records = new Map(records.map((record) => [record.distinctId, record]));
  }

  /**
   * Applies an event. Returns why its link has no effect, or null when it has no link or its ids are linked. A personless event links
   * nothing.
   */
  apply(event: PersonEvent): string | null {
    const { distinctId, link, isPersonless } = event;
    // The direction of an alias depends on the facts before this event.
    const isReversed = link?.via === "alias" && this.#isDevice(distinctId) && !this.#isDevice(link.otherId);
    if (makesUser(event, this.#isVerified) && !isSharedId(distinctId)) this.#users.add(distinctId);
    if (isPersonless || link === null || link.otherId === distinctId) return null;
    if (isSharedId(distinctId) || isSharedId(link.otherId)) return SHARED;
    if (this.#isVerified) this.#users.add(link.otherId);
    const [claimer, claimed] = isReversed ? [link.otherId, distinctId] : [distinctId, link.otherId];
    const refusal = this.#isVerified ? this.#refuseVerified(claimer, claimed) : this.#refuse(claimer, claimed);
    if (refusal !== null) return refusal;
    const present = this.#claimOn(claimed);
    if (present?.by === claimer && (present.isVerified || !this.#isVerified)) return null;
    this.#changed.set(claimed, { by: claimer, via: link.via, isVerified: this.#isVerified });
    if (!this.#isVerified) this.#made.set(claimer, (this.#made.get(claimer) ?? 0) + 1);
    return null;
  }

  /**
   * The version of the claim that the link made or found, if repeating the link would change nothing. Null when the link has no
   * effect, or when an alias could now be reversed.
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

  get changes(): ClaimChange[] {
    return Array.from(this.#changed, ([distinctId, claim]) => ({
      distinctId,
      claim,
      version: this.#versionOf(distinctId),
    }));
  }

  /** The number of claims with publishable keys, by id. */
  get made(): ReadonlyMap<string, number> {
    return this.#made;
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

  /** Why a publishable key's claim is refused: it would not count, or another claim exists. */
  #refuse(claimer: string, claimed: string): string | null {
    if (!isDeviceForm(claimed)) return NO_DEVICE;
    if (this.#isUser(claimed)) return "the other id is a user's, so only a secret key can link it";
    if (this.#isDevice(claimer)) return "neither id is known as a user's, so only a secret key can link them";
    const present = this.#claimOn(claimed);
    if (present !== null) return present.by === claimer ? null : "the other id is already linked to another id";
    if ((this.#records.get(claimer)?.claimsMade ?? 0) + (this.#made.get(claimer) ?? 0) >= CLAIMS_MADE_MAX) {
      return `this id already links ${CLAIMS_MADE_MAX} others, so only a secret key can link more`;
    }
    return null;
  }

  /** Why a secret key's claim is refused: another one exists, or it would close a cycle of such claims. */
  #refuseVerified(claimer: string, claimed: string): string | null {
    const present = this.#claimOn(claimed);
    if (present?.isVerified === true) {
      return present.by === claimer ? null : "the other id is already linked to another id by a secret key";
    }
    for (let above = this.#claimOn(claimer); above?.isVerified === true; above = this.#claimOn(above.by)) {
      if (above.by === claimed) return "this id is already linked to the other id by a secret key";
    }
    return null;
  }
}

/** A model of who a person is (rules P2, P3 and P9). It is written independently of src, and is simple rather than fast. */
export interface ModelEvent {
  readonly uuid: string;
  /** The event's `distinct_id`. */
  readonly id: string;
  readonly key: "publishable" | "secret";
  readonly kind: "capture" | "identify" | "alias";
  /** `$anon_distinct_id` of `$identify`, or `alias` of `$create_alias`. */
  readonly other?: string;
  readonly isPersonless?: boolean;
  /** Whether the SDK says that it knows its user: `$is_identified`. */
  readonly isSignedIn?: boolean;
  readonly setOnce?: Readonly<Record<string, string>>;
  readonly set?: Readonly<Record<string, string>>;
  readonly unset?: readonly string[];
}

/** A balance, a usage event or a consent of an id, with its own id. */
export interface ModelHolding {
  readonly kind: "balance" | "usage" | "consent";
  readonly id: string;
  readonly holdingId: string;
  /** For a consent: whether an unknown visitor gave it. */
  readonly isDevice?: boolean;
}

interface Claim {
  readonly claimer: string;
  readonly via: "identify" | "alias";
  readonly isVerified: boolean;
}

export interface ModelDistinctId {
  readonly distinctId: string;
  readonly via: "identify" | "alias" | null;
  readonly claimedBy: string | null;
  readonly isVerified: boolean;
}

export interface ModelPerson {
  /** Each id of the person once, nearest first. Null if there are only credits, usage or consents (P9). */
  readonly distinctIds: readonly ModelDistinctId[] | null;
  readonly isIdentified: boolean;
  /** The values that P9 allows, by name. Of two claimed ids at the same distance, either may give the value. */
  readonly properties: ReadonlyMap<string, readonly string[]>;
  readonly eventUuids: readonly string[];
  readonly holdingIds: Readonly<Record<ModelHolding["kind"], readonly string[]>>;
}

/** The shared ids that the histories use, from PostHog's list. */
const NIL_UUID = "00000000-0000-0000-0000-000000000000";
const SHARED_IDS = [
  "$posthog_cookieless",
  "anonymous",
  "guest",
  "none",
  "null",
  "undefined",
  "0",
  "[object object]",
  NIL_UUID,
];

const isShared = (id: string): boolean => SHARED_IDS.includes(id.trim().replaceAll('"', "").toLowerCase());

/** A UUID, or five groups of hex digits with 32 or more in all. */
function hasDeviceForm(id: string): boolean {
  const groups = id.split("-");
  const areHex = groups.every((group) => /^[0-9a-f]+$/i.test(group));
  return groups.length === 5 && areHex && groups.join("").length >= 32;
}

const changesProperties = ({ set = {}, setOnce = {}, unset = [] }: ModelEvent): boolean =>
  [Object.keys(set), Object.keys(setOnce), unset].some((names) => names.length > 0);

export class ClaimsModel {
  readonly #events: ModelEvent[] = [];
  readonly #holdings: ModelHolding[] = [];
  /** By the kind of key that set them, then by id. */
  readonly #properties = {
    secret: new Map<string, Map<string, string>>(),
    publishable: new Map<string, Map<string, string>>(),
  };
  /** The stored claims, by the claimed id. An id has at most one. */
  readonly #claims = new Map<string, Claim>();
  /** Ids that events made users. Ids with credits, usage or consents are users too. */
  readonly #users = new Set<string>();
  /** Those of them that a secret key named. */
  readonly #verifiedUsers = new Set<string>();

  hold(holding: ModelHolding): void {
    this.#holdings.push(holding);
  }

  play(sent: ModelEvent): void {
    const event = isShared(sent.id) ? { ...sent, isPersonless: true } : sent;
    if (event.isPersonless === true) {
      if (event.kind === "identify" || (event.key === "secret" && changesProperties(event)))
        this.#mark(event, event.id);
    } else {
      this.#setProperties(event);
      const wasDevice =
        event.key === "secret" ? hasDeviceForm(event.id) && !this.#isVerifiedUser(event.id) : this.#isDevice(event.id);
      if (event.key === "secret" || event.kind === "identify" || event.isSignedIn) this.#mark(event, event.id);
      if (event.other !== undefined) this.#link(event, event.other, wasDevice);
    }
    this.#events.push(event);
  }

  /** The person of an id. Null if nothing is stored. */
  personOf(id: string): ModelPerson | null {
    const levels = this.#levelsFrom(id);
    const ids = levels.flat();
    const hasEvents = this.#isPersons(id);
    const holdingsOf = (kind: ModelHolding["kind"]) =>
      this.#holdings
        .filter((holding) => holding.kind === kind && ids.includes(holding.id))
        .map(({ holdingId }) => holdingId);
    const holdingIds = {
      balance: holdingsOf("balance"),
      usage: holdingsOf("usage"),
      consent: holdingsOf("consent"),
    };
    if (!hasEvents && Object.values(holdingIds).every((list) => list.length === 0)) return null;
    return {
      distinctIds: hasEvents ? ids.map((each) => this.#entryOf(each, id)) : null,
      isIdentified: this.#isIdentified(id),
      properties: this.#mergedProperties(levels),
      eventUuids: hasEvents ? this.#events.filter((event) => ids.includes(event.id)).map(({ uuid }) => uuid) : [],
      holdingIds,
    };
  }

  // The claim of an event about another id.

  #mark({ key }: ModelEvent, id: string): void {
    this.#users.add(id);
    if (key === "secret") this.#verifiedUsers.add(id);
  }

  /** `wasDevice`: whether the event's own id had a device's form and was no user before the event, for a secret key by verified marks. */
  #link(event: ModelEvent, other: string, wasDevice: boolean): void {
    const { id, kind, key } = event;
    const via = kind === "identify" ? "identify" : "alias";
    const isOtherUser = key === "secret" ? this.#isVerifiedUser(other) : !hasDeviceForm(other) || this.#isUser(other);
    const isReversed = via === "alias" && wasDevice && isOtherUser;
    const [claimer, claimed] = isReversed ? [other, id] : [id, other];
    if (claimer === claimed || isShared(claimer) || isShared(claimed)) return;
    if (key === "secret") {
      this.#claimVerified(claimer, claimed, via);
      for (const each of [claimer, claimed]) this.#mark(event, each);
    } else if (this.#counts(claimer, claimed) && !this.#claims.has(claimed)) {
      this.#claims.set(claimed, { claimer, via, isVerified: false });
    }
  }

  #claimVerified(claimer: string, claimed: string, via: Claim["via"]): void {
    if (this.#claims.get(claimed)?.isVerified) return;
    for (let above: string | undefined = claimer; above !== undefined; ) {
      if (above === claimed) return;
      const claim = this.#claims.get(above);
      above = claim?.isVerified ? claim.claimer : undefined;
    }
    this.#claims.set(claimed, { claimer, via, isVerified: true });
  }

  /** Whether a claim by a publishable key counts now. */
  #counts(claimer: string, claimed: string): boolean {
    return this.#isDevice(claimed) && (this.#isUser(claimer) || !hasDeviceForm(claimer));
  }

  // The current state of an id.

  #isIdentified(id: string): boolean {
    return this.#events.some((event) => event.kind === "identify" && event.id === id && !event.isPersonless);
  }

  #isUser(id: string): boolean {
    return this.#users.has(id) || this.#isVerifiedUser(id);
  }

  #isVerifiedUser(id: string): boolean {
    const makesUser = (holding: ModelHolding) => holding.kind !== "consent" || holding.isDevice !== true;
    return this.#verifiedUsers.has(id) || this.#holdings.some((holding) => holding.id === id && makesUser(holding));
  }

  #isDevice(id: string): boolean {
    return hasDeviceForm(id) && !this.#isUser(id);
  }

  /** The claim of an id, as long as it counts. */
  #countingClaimOf(id: string): Claim | undefined {
    const claim = this.#claims.get(id);
    if (claim === undefined) return undefined;
    return claim.isVerified || this.#counts(claim.claimer, id) ? claim : undefined;
  }

  #claimedBy(id: string): string[] {
    return [...this.#claims.keys()].filter((claimed) => this.#countingClaimOf(claimed)?.claimer === id);
  }

  /** Whether the id belongs to a person. Then all of its events do. */
  #isPersons(id: string): boolean {
    const sentProfiled = this.#events.some((event) => event.id === id && !event.isPersonless);
    return sentProfiled || this.#countingClaimOf(id) !== undefined || this.#claimedBy(id).length > 0;
  }

  // The person.

  /** The id, then the ids that it claims, then their claims, and so on. */
  #levelsFrom(id: string): string[][] {
    const levels = [[id]];
    for (let level = levels[0]; level !== undefined && level.length > 0; ) {
      level = level.flatMap((claimer) => this.#claimedBy(claimer));
      levels.push(level);
    }
    return levels;
  }

  #entryOf(distinctId: string, exportedId: string): ModelDistinctId {
    const claim = distinctId === exportedId ? undefined : this.#claims.get(distinctId);
    if (claim === undefined) return { distinctId, via: null, claimedBy: null, isVerified: false };
    return { distinctId, via: claim.via, claimedBy: claim.claimer, isVerified: claim.isVerified };
  }

  #mergedProperties(levels: readonly (readonly string[])[]): Map<string, string[]> {
    const merged = new Map<string, string[]>();
    for (const room of [this.#properties.secret, this.#properties.publishable]) {
      for (const level of levels) {
        const ofLevel = level.flatMap((id) => [...(room.get(id) ?? [])]);
        const isNew = new Set(ofLevel.map(([name]) => name).filter((name) => !merged.has(name)));
        for (const [name, value] of ofLevel) {
          if (isNew.has(name)) merged.set(name, [...(merged.get(name) ?? []), value]);
        }
      }
    }
    return merged;
  }

  #setProperties({ id, key, setOnce = {}, set = {}, unset = [] }: ModelEvent): void {
    const room = this.#properties[key];
    const properties = room.get(id) ?? new Map<string, string>();
    for (const [name, value] of Object.entries(setOnce)) if (!properties.has(name)) properties.set(name, value);
    for (const [name, value] of Object.entries(set)) properties.set(name, value);
    const others = key === "secret" ? this.#properties.publishable.get(id) : undefined;
    for (const name of unset) for (const each of [properties, others]) each?.delete(name);
    room.set(id, properties);
  }
}

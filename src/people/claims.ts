import { isDeviceForm } from "./device-id.ts";
import { isSharedId } from "./shared-ids.ts";

/** The kind of event by which an id claims another id. */
export type Via = "identify" | "alias";

/** The claim on an id: the id that claims it, and whether it was sent with a secret key. */
export interface Claim {
  readonly by: string;
  readonly isVerified: boolean;
}

/** Several claims in a row as one: the id at their upper end, if it matters, and how many they are. */
interface ClaimsInRow {
  readonly by: string | null;
  readonly isVerified: boolean;
  readonly count: number;
}

/** The stored facts about an id that claims depend on. */
export interface ClaimRecord {
  readonly distinctId: string;
  readonly claim: Claim | ClaimsInRow | null;
  readonly version: number;
  /** Whether it has credits, usage or a consent of its own, or was identified. */
  readonly isUser: boolean;
  /** Whether it claims other ids. */
  readonly isClaimer: boolean;
  /** How many claims it made by publishable keys. */
  readonly claimsMade: number;
}

/** A change of one id's claim. */
export interface ClaimChange {
  readonly distinctId: string;
  /** Null: the claim ends. */
  readonly claim: (Claim & { readonly via: Via }) | null;
  readonly wasClaimed: boolean;
  /** The version that was read; 0 if nothing is stored. */
  readonly version: number;
}

/** The changes of claims after they were read. */
export interface ClaimChanges {
  readonly changes: readonly ClaimChange[];
  /** Ids whose claims a decision depends on and does not change. Their versions must still be those that were read. */
  readonly unchanged: readonly Pick<ClaimRecord, "distinctId" | "version">[];
  /** How many claims an id makes by a publishable key. */
  readonly made: ReadonlyMap<string, number>;
}

/** The most claims above an id. With a publishable key, an id that has so many above it cannot claim another. */
export const depthMax = 32;
/** The most claims that an id makes by publishable keys (L1). */
const claimsMadeMax = 1_000;

/** The version of an id's claim after a new one. If there was one, it ends first, as a change of its own. */
export const versionAfter = (version: number, wasClaimed: boolean): number => version + (wasClaimed ? 2 : 1);

/** A link as it was sent. */
export const sentLink = ({ otherId, via }: { readonly otherId: string; readonly via: Via }): string =>
  `${via} ${otherId}`;

/** The claims of a request: as they are read, and then changed by one event after another (P2). Pure. */
export class Claims {
  readonly #isVerified: boolean;
  readonly #records: ReadonlyMap<string, ClaimRecord>;
  readonly #identified = new Set<string>();
  readonly #claimers = new Set<string>();
  readonly #changed = new Map<string, ClaimChange["claim"]>();
  readonly #unchanged = new Set<string>();
  readonly #made = new Map<string, number>();

  /** `isVerified`: whether the events were sent with a secret key. */
  constructor(records: readonly ClaimRecord[], isVerified: boolean) {
    this.#isVerified = isVerified;
    this.#records = new Map(records.map((record) => [record.distinctId, record]));
  }

  /** The id was the `distinct_id` of an `$identify`, so it is a user from now on. */
  identify(distinctId: string): void {
    this.#identified.add(distinctId);
  }

  /** Applies a link. Returns why it has no effect. Null when it is linked now, or was already. */
  link(distinctId: string, otherId: string, via: Via): string | null {
    if (distinctId === otherId) return null;
    if (isSharedId(distinctId) || isSharedId(otherId)) return "an id that many clients share is not linked";
    // In an alias from a browser, the other id is the user, and the own id is the device.
    const isReversed = via === "alias" && this.#isUser(otherId) && this.#isDevice(distinctId);
    const [claimer, claimed] = isReversed ? [otherId, distinctId] : [distinctId, otherId];
    const refusal = this.#isVerified ? this.#refuseVerified(claimer, claimed) : this.#refuse(claimer, claimed);
    if (refusal !== null) return refusal;
    const present = this.#claimOn(claimed);
    if (present?.by === claimer && (present.isVerified || !this.#isVerified)) return null;
    this.#changed.set(claimed, { by: claimer, via, isVerified: this.#isVerified });
    this.#claimers.add(claimer);
    if (!this.#isVerified) this.#made.set(claimer, (this.#made.get(claimer) ?? 0) + 1);
    return null;
  }

  /**
   * The version of the claim that the link made or found, when the same link again would find it. Null when the link might be
   * read the other way round, or does nothing.
   */
  standing(distinctId: string, otherId: string, via: Via): number | null {
    if (via === "alias" && isDeviceForm(distinctId)) return null;
    const claim = this.#claimOn(otherId);
    if (claim?.by !== distinctId || claim.isVerified !== this.#isVerified) return null;
    const record = this.#records.get(otherId);
    const version = record?.version ?? 0;
    return this.#changed.has(otherId) ? versionAfter(version, (record?.claim ?? null) !== null) : version;
  }

  changes(): ClaimChanges {
    const versionOf = (distinctId: string) => this.#records.get(distinctId)?.version ?? 0;
    return {
      changes: [...this.#changed].map(([distinctId, claim]) => ({
        distinctId,
        claim,
        wasClaimed: (this.#records.get(distinctId)?.claim ?? null) !== null,
        version: versionOf(distinctId),
      })),
      unchanged: [...this.#unchanged]
        .filter((distinctId) => !this.#changed.has(distinctId))
        .map((distinctId) => ({ distinctId, version: versionOf(distinctId) })),
      made: this.#made,
    };
  }

  #claimOn(distinctId: string | null): Claim | ClaimsInRow | null {
    if (distinctId === null) return null;
    const changed = this.#changed.get(distinctId);
    return changed === undefined ? (this.#records.get(distinctId)?.claim ?? null) : changed;
  }

  #isUser(distinctId: string): boolean {
    return this.#identified.has(distinctId) || this.#records.get(distinctId)?.isUser === true;
  }

  #isDevice(distinctId: string): boolean {
    return isDeviceForm(distinctId) && !this.#isUser(distinctId);
  }

  /** Why a claim from a publishable key is refused: it would not count, or it is not the first. */
  #refuse(claimer: string, claimed: string): string | null {
    if (!isDeviceForm(claimed))
      return "the other id does not have the form of a device id, so only a secret key can link it";
    if (this.#isUser(claimed)) return "the other id is a user's, so only a secret key can link it";
    const present = this.#claimOn(claimed);
    if (present !== null) return present.by === claimer ? null : "the other id is already linked to another id";
    if ((this.#records.get(claimer)?.claimsMade ?? 0) + (this.#made.get(claimer) ?? 0) >= claimsMadeMax) {
      return `this id already links ${claimsMadeMax} others, so only a secret key can link more`;
    }
    let depth = 0;
    for (let above = this.#claimOn(claimer); above !== null; above = this.#claimOn(above.by)) {
      if (above.by === claimed) return "this id is already linked to the other id";
      depth += "count" in above ? above.count : 1;
      if (depth >= depthMax) return `the chain of linked ids above this id already has ${depthMax} ids`;
    }
    return null;
  }

  /** Why a claim from a secret key is refused. If a claim that is not verified is in its way, ends that one instead. */
  #refuseVerified(claimer: string, claimed: string): string | null {
    const present = this.#claimOn(claimed);
    if (present?.isVerified === true) {
      return present.by === claimer ? null : "the other id is already linked to another id by a secret key";
    }
    // An id that claims no other cannot close a circle, whatever is above the claimer.
    if (this.#records.get(claimed)?.isClaimer !== true && !this.#claimers.has(claimed)) return null;
    const path: string[] = [];
    for (let id = claimer; id !== claimed; ) {
      const above = this.#claimOn(id);
      if (above === null) return null;
      path.push(id);
      if (above.by === null) return null;
      id = above.by;
    }
    const ending = path.find((id) => this.#claimOn(id)?.isVerified === false);
    if (ending === undefined) return "this id is already linked to the other id by a secret key";
    // If one of these changed after the read, a different claim would have to end, or none.
    for (const id of path) this.#unchanged.add(id);
    this.#changed.set(ending, null);
    return null;
  }
}
